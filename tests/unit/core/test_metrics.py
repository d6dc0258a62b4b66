import asyncio

from rookery.core.metrics import Metrics


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
