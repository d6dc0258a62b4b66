"""Metrics of one node, in Prometheus form.

Counters on the hot path are plain integers of the component that owns them; `read` registers a function that
hands them over when somebody scrapes. Rendering gives way to the event loop between metric families, so a
scrape of many partitions never holds the loop for long.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Sample = tuple[Sequence[str], float]
"""Label values, in the order of the label names, and the value."""


class _Read(Collector):
    """A metric family whose samples a function computes at each scrape."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        kind: Literal["gauge", "counter"],
        samples: Callable[[], Iterable[Sample]],
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._family = GaugeMetricFamily if kind == "gauge" else CounterMetricFamily
        self._samples = samples

    def describe(self) -> Iterable[Metric]:
        return [self._family(self._name, self._text, labels=self._labels)]

    def collect(self) -> Iterable[Metric]:
        family = self._family(self._name, self._text, labels=self._labels)
        for label_values, value in self._samples():
            family.add_metric(label_values, value)
        return [family]


class _OneFamily(Collector):
    """Lets one family be rendered by itself."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


class Metrics:
    """The registry of one node. Names are given in full, counters without their ``_total``."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), buckets: Sequence[float] = SECONDS_BUCKETS
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)

    def read(
        self,
        name: str,
        text: str,
        samples: Callable[[], Iterable[Sample]],
        *,
        labels: Sequence[str] = (),
        kind: Literal["gauge", "counter"] = "gauge",
    ) -> None:
        """A family whose samples come from `samples` at scrape time."""
        self._registry.register(_Read(name, text, labels, kind, samples))

    def read_value(
        self, name: str, text: str, value: Callable[[], float], *, kind: Literal["gauge", "counter"] = "gauge"
    ) -> None:
        """A family of one sample without labels."""
        self.read(name, text, lambda: [((), value())], kind=kind)

    def value(self, name: str, labels: dict[str, str] | None = None) -> float | None:
        """One sample as a scrape would show it, or None."""
        return self._registry.get_sample_value(name, labels or {})

    async def render(self) -> bytes:
        """All families as text, giving way to the event loop between them."""
        parts = []
        for family in self._registry.collect():
            part = CollectorRegistry(auto_describe=False)
            part.register(_OneFamily(family))
            parts.append(generate_latest(part))
            await asyncio.sleep(0)
        return b"".join(parts)
