"""A scrape of many partitions: how long it holds the event loop, beside what prometheus_client needs (CPU time)."""

import asyncio
import time
from functools import partial

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from rookery.core.metrics import Metrics, Sample

PARTITIONS = 3000
FAMILIES = 16
LABELS = ("topic", "partition")


def samples(values: list[float]) -> list[Sample]:
    return [((f"topic-{number // 30}", str(number % 30)), value) for number, value in enumerate(values)]


def ours(values: list[float]) -> Metrics:
    metrics = Metrics()
    for family in range(FAMILIES):
        metrics.read(f"kafka_bench_{family}", "A number.", partial(samples, values), labels=LABELS)
    return metrics


def theirs(values: list[float]) -> CollectorRegistry:
    registry = CollectorRegistry()
    for family in range(FAMILIES):
        gauge = Gauge(f"kafka_bench_{family}", "A number.", LABELS, registry=registry)
        for labels, value in samples(values):
            gauge.labels(*labels).set(value)
    return registry


async def steps(metrics: Metrics) -> tuple[int, list[float]]:
    """Bytes rendered, and how long each turn of the loop was held."""
    held: list[float] = []
    rendering = metrics.render().__await__()
    while True:
        begun = time.thread_time()
        try:
            next(rendering)
        except StopIteration as done:
            return len(done.value), held
        finally:
            held.append(time.thread_time() - begun)


def main() -> None:
    values = [float(number) for number in range(PARTITIONS)]
    size, held = asyncio.run(steps(ours(values)))
    registry = theirs(values)
    begun = time.thread_time()
    other = len(generate_latest(registry))
    whole = time.thread_time() - begun
    print(f"{PARTITIONS} partitions x {FAMILIES} families, {size / 1e6:.1f} MB")
    print(f"{'':24}{'in all':>10}{'longest hold':>16}")
    print(f"{'sliced':24}{sum(held) * 1e3:8.0f} ms{max(held) * 1e3:13.1f} ms")
    print(f"{'prometheus_client':24}{whole * 1e3:8.0f} ms{whole * 1e3:13.1f} ms  ({other / 1e6:.1f} MB)")
