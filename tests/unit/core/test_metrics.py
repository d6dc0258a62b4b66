import asyncio
import math

from prometheus_client.parser import text_string_to_metric_families

from rookery.core.metrics import SLICE, Metrics


async def test_render_shows_histograms_and_values_that_are_read() -> None:
    metrics = Metrics()
    metrics.histogram("rookery_request_seconds", "Time.", ["request"]).labels("Fetch").observe(0.002)
    sizes = {"a": 1.0, "b": 2.0}
    metrics.read(
        "kafka_log_log_size", "Size.", lambda: (((t,), v) for t, v in sizes.items()), labels=["topic"]
    )
    metrics.read_value("rookery_acked", "Acked.", lambda: 9.0, kind="counter")
    text = (await metrics.render()).decode()
    assert 'rookery_request_seconds_bucket{le="0.0025",request="Fetch"} 1.0' in text
    assert 'kafka_log_log_size{topic="b"} 2.0' in text
    assert "rookery_acked_total 9.0" in text
    sizes["b"] = 5.0
    assert metrics.value("kafka_log_log_size", {"topic": "b"}) == 5.0


async def test_rendering_gives_way_to_the_loop_between_families() -> None:
    metrics = Metrics()
    for number in range(10):
        metrics.histogram(f"rookery_test_{number}", "A number.").observe(number)
    turns = 0
    done = False

    async def other_work() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(other_work())
        await metrics.render()
        done = True
    assert turns >= 10


async def test_what_is_read_is_written_so_that_prometheus_reads_it_back() -> None:
    metrics = Metrics()
    odd = ('a"b\\c\nd', "")
    samples = [(odd, 1.5), (("plain", "x"), math.inf), (("less", "y"), -math.inf), (("big", "z"), 2.0**60)]
    metrics.read("rookery_test", "Odd labels.", lambda: samples, labels=("one", "two"))
    metrics.read_value("rookery_counted", "A counter.", lambda: 3, kind="counter")
    families = {found.name: found for found in text_string_to_metric_families((await metrics.render()).decode())}
    assert [((s.labels["one"], s.labels["two"]), s.value) for s in families["rookery_test"].samples] == samples
    assert families["rookery_test"].type == "gauge"
    assert families["rookery_counted"].type == "counter"
    assert [(s.name, s.value) for s in families["rookery_counted"].samples] == [("rookery_counted_total", 3.0)]


async def test_a_large_family_is_written_in_slices_of_one_moment() -> None:
    metrics = Metrics()
    count = 3 * SLICE + 1
    moment = 0

    def samples() -> list[tuple[tuple[str], float]]:
        return [((str(number),), moment) for number in range(count)]

    metrics.read("rookery_test", "Many.", samples, labels=("number",))
    turns = 0

    async def other_work() -> None:
        nonlocal turns, moment
        while True:
            turns += 1
            moment += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(other_work())
    text = (await metrics.render()).decode()
    other.cancel()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == count
    assert len({line.rpartition(" ")[2] for line in lines}) == 1
    assert turns >= 4


async def test_the_process_is_reported() -> None:
    metrics = Metrics()
    metrics.process()
    text = (await metrics.render()).decode()
    assert "process_open_fds " in text
    assert "process_resident_memory_bytes " in text


async def test_of_single_partitions_only_so_many_are_reported_and_the_rest_is_counted() -> None:
    metrics = Metrics(partitions_max=3)
    places = [(("orders", str(number)), float(number)) for number in range(5)]
    metrics.read("rookery_size", "By partition.", lambda: places, labels=("topic", "partition"))
    metrics.read("rookery_of", "By topic.", lambda: [((str(n),), n) for n in range(5)], labels=("topic",))
    metrics.read_value("rookery_left_out", "Left out.", lambda: metrics.left_out)
    text = (await metrics.render()).decode()
    assert text.count("rookery_size{") == 3
    assert text.count("rookery_of{") == 5
    assert "rookery_left_out 2.0" in text
    del places[2:]
    assert "rookery_left_out 0.0" in (await metrics.render()).decode()


async def test_a_family_is_reported_under_another_name_with_the_same_samples() -> None:
    metrics = Metrics()
    metrics.read("kafka_in", "In.", lambda: [(("a",), 2)], labels=("topic",), kind="counter")
    metrics.rename(lambda name: ["kafka_inpersec"] if name == "kafka_in_total" else [])
    text = (await metrics.render()).decode()
    assert 'kafka_in_total{topic="a"} 2.0' in text
    assert 'kafka_inpersec{topic="a"} 2.0' in text
    total = metrics.total_of("kafka_in_total")
    assert total is not None
    assert total() == 2
    assert metrics.total_of("kafka_out") is None


async def test_a_histogram_that_is_read_is_written_so_that_prometheus_reads_it_back() -> None:
    metrics = Metrics()
    metrics.read_histogram(
        "rookery_seconds", "Times.", lambda: [(("Fetch",), [3, 0, 1], 2.5)], bounds=(0.1, 1.0), labels=("request",)
    )
    text = (await metrics.render()).decode()
    (family,) = text_string_to_metric_families(text)
    assert family.type == "histogram"
    assert [(s.name, s.labels.get("le"), s.value) for s in family.samples] == [
        ("rookery_seconds_bucket", "0.1", 3.0),
        ("rookery_seconds_bucket", "1", 3.0),
        ("rookery_seconds_bucket", "+Inf", 4.0),
        ("rookery_seconds_sum", None, 2.5),
        ("rookery_seconds_count", None, 4.0),
    ]
    assert metrics.value("rookery_seconds_count", {"request": "Fetch"}) == 4.0
