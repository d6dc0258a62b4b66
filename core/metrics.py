"""Metrics of one node, in Prometheus form.

Counters on the hot path are plain integers of the component that owns them; `read` registers a function that
hands them over when somebody scrapes. The samples of one family are taken at one moment; writing them down gives
way to the event loop every few hundred lines, so a scrape of many partitions never holds the loop for long. Of
families that tell of single partitions only so many samples are written as the node is told to.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from rookery.core.metric_families import HistogramSample, Kind, ReadFamily, ReadHistogram, Sample

__all__ = ["CONTENT_TYPE", "PARTITIONS_MAX", "SECONDS_BUCKETS", "Metrics", "Sample"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
PARTITIONS_MAX = 10_000
SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

C = TypeVar("C", bound=Collector)


class Family(NamedTuple):
    """A metric as it was declared: the name as it is written, and what it tells."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


class _OneFamily(Collector):
    """Lets one family be rendered by itself."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


class Metrics:
    """The registry of one node. Names are given in full, counters without their ``_total``."""

    def __init__(self, partitions_max: int = PARTITIONS_MAX) -> None:
        self._partitions_max = partitions_max
        self._registry = CollectorRegistry()
        """Everything, so that no name is given twice."""
        self._kept = CollectorRegistry()
        """Metrics that hold their values themselves."""
        self._read: list[ReadFamily] = []
        self._read_histograms: list[ReadHistogram] = []
        self.families: list[Family] = []
        """All that was declared, in that order."""

    def _keep(self, collector: C) -> C:
        self._registry.register(collector)
        self._kept.register(collector)
        return collector

    def _declare(self, name: str, kind: str, labels: Sequence[str], text: str) -> None:
        self.families.append(Family(name + "_total" * (kind == "counter"), kind, tuple(labels), text))

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        self._declare(name, "counter", labels, text)
        return self._keep(Counter(name, text, labels, registry=None))

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        self._declare(name, "gauge", labels, text)
        return self._keep(Gauge(name, text, labels, registry=None))

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), buckets: Sequence[float] = SECONDS_BUCKETS
    ) -> Histogram:
        self._declare(name, "histogram", labels, text)
        return self._keep(Histogram(name, text, labels, buckets=buckets, registry=None))

    def process(self) -> None:
        """What the system knows of this process: memory, CPU, open files."""
        self._keep(ProcessCollector(registry=None))

    def read(
        self,
        name: str,
        text: str,
        samples: Callable[[], Iterable[Sample]],
        *,
        labels: Sequence[str] = (),
        kind: Kind = "gauge",
    ) -> None:
        """A family whose samples come from `samples` at scrape time."""
        self._declare(name, kind, labels, text)
        self._add(ReadFamily(name, text, labels, kind, samples))

    def _add(self, read: ReadFamily) -> None:
        self._registry.register(read)
        self._read.append(read)

    def read_value(
        self, name: str, text: str, value: Callable[[], float], *, kind: Kind = "gauge"
    ) -> None:
        """A family of one sample without labels."""
        self.read(name, text, lambda: [((), value())], kind=kind)

    def read_histogram(
        self,
        name: str,
        text: str,
        samples: Callable[[], Iterable[HistogramSample]],
        *,
        bounds: Sequence[float],
        labels: Sequence[str] = (),
    ) -> None:
        """A histogram whose counts come from `samples` at scrape time, one for each bound and one beyond."""
        self._declare(name, "histogram", labels, text)
        read = ReadHistogram(name, text, labels, bounds, samples)
        self._registry.register(read)
        self._read_histograms.append(read)

    def rename(self, others: Callable[[str], Iterable[str]]) -> None:
        """Tell what is read so far under other names, too: those that `others` gives for a name as it is written."""
        for read in list(self._read):
            for other in others(read.name):
                self._add(read.renamed(other))

    def total_of(self, name: str) -> Callable[[], float] | None:
        """Asks for the sum of what is read under a name; None if nothing is."""
        return next((read.total for read in self._read if read.name == name), None)

    @property
    def left_out(self) -> int:
        """Samples of single partitions that the last scrape had no room for."""
        return sum(read.left_out for read in self._read)

    def value(self, name: str, labels: dict[str, str] | None = None) -> float | None:
        """One sample as a scrape would show it, or None."""
        return self._registry.get_sample_value(name, labels or {})

    async def render(self) -> bytes:
        """All families as text, giving way to the event loop between slices."""
        parts = []
        for family in self._kept.collect():
            part = CollectorRegistry(auto_describe=False)
            part.register(_OneFamily(family))
            parts.append(generate_latest(part))
            await asyncio.sleep(0)
        for text in self._read_texts():
            parts.append(text)
            await asyncio.sleep(0)
        return b"".join(parts)

    def _read_texts(self) -> Iterator[bytes]:
        for family in self._read:
            yield from family.slices(self._partitions_max)
        for histogram in self._read_histograms:
            yield from histogram.slices()
