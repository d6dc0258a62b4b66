import asyncio
import math

from prometheus_client.parser import text_string_to_metric_families

from rookery.core.metrics import SLICE, Metrics


async def test_render_shows_counters_gauges_histograms_and_read_values() -> None:
    metrics = Metrics()
    metrics.counter("kafka_server_brokertopicmetrics_bytesin", "Bytes in.", ["topic"]).labels("orders").inc(7)
    metrics.gauge("kafka_server_replicamanager_leadercount", "Leaders.").set(3)
    metrics.histogram("rookery_request_seconds", "Time.", ["request"]).labels("Fetch").observe(0.002)
    sizes = {"a": 1.0, "b": 2.0}
    metrics.read(
        "kafka_log_log_size", "Size.", lambda: (((t,), v) for t, v in sizes.items()), labels=["topic"]
    )
    metrics.read_value("rookery_acked", "Acked.", lambda: 9.0, kind="counter")
    text = (await metrics.render()).decode()
    assert 'kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 7.0' in text
    assert "kafka_server_replicamanager_leadercount 3.0" in text
    assert 'rookery_request_seconds_bucket{le="0.0025",request="Fetch"} 1.0' in text
    assert 'kafka_log_log_size{topic="b"} 2.0' in text
    assert "rookery_acked_total 9.0" in text
    sizes["b"] = 5.0
    assert metrics.value("kafka_log_log_size", {"topic": "b"}) == 5.0


async def test_rendering_gives_way_to_the_loop_between_families() -> None:
    metrics = Metrics()
    for number in range(10):
        metrics.gauge(f"rookery_test_{number}", "A number.").set(number)
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


async def test_the_process_is_told_of() -> None:
    metrics = Metrics()
    metrics.process()
    text = (await metrics.render()).decode()
    assert "process_open_fds " in text
    assert "process_resident_memory_bytes " in text
