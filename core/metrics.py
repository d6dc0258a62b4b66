"""Metrics of one node, in Prometheus form.

Counters on the hot path are plain integers of the component that owns them; `read` registers a function that hands them
over at a scrape. The samples of one family are taken at one moment; writing them down gives way to the event loop every
few hundred lines, so a scrape of many partitions never holds the loop for long. Of families with one sample per
partition only a configured number of samples is written.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import accumulate
from typing import Literal, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

SLICE = 250
"""Lines written before others get their turn."""

Kind = Literal["gauge", "counter"]
Sample = tuple[Sequence[str], float]
"""Label values, in the order of the label names, and the value."""
Names = Callable[[str], str]
"""How names of groups, users and clients are shown (rookery.metrics.hide.names)."""
HistogramSample = tuple[Sequence[str], Sequence[int], float]
"""Label values, how many fell into each bucket, and the sum of all."""


def as_it_is(name: str) -> str:
    return name


def digest(name: str) -> str:
    """A name for those who need not know it; none stays none."""
    return sha256(name.encode()).hexdigest()[:12] if name else ""


class ReadFamily(Collector):
    """A metric family whose samples a function computes at each scrape."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        kind: Kind,
        samples: Callable[[], Iterable[Sample]],
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._kind = kind
        self._family = GaugeMetricFamily if kind == "gauge" else CounterMetricFamily
        self._samples = samples
        self.left_out = 0
        """Samples that did not fit into the last scrape."""

    @property
    def name(self) -> str:
        """As it is written."""
        return self._name + "_total" * (self._kind == "counter")

    def renamed(self, name: str) -> "ReadFamily":
        """The same samples under a name that is written as it stands."""
        return ReadFamily(name, self._text, self._labels, "gauge", self._samples)

    def total(self) -> float:
        return sum(value for _, value in self._samples())

    def describe(self) -> Iterable[Metric]:
        return [self._family(self._name, self._text, labels=self._labels)]

    def collect(self) -> Iterable[Metric]:
        family = self._family(self._name, self._text, labels=self._labels)
        for label_values, value in self._samples():
            family.add_metric(label_values, value)
        return [family]

    def slices(self, partitions_max: int) -> Iterator[bytes]:
        """The text of the family, piece by piece; its samples are all taken before the first."""
        name = self.name
        samples = list(self._samples())
        if "partition" in self._labels:
            self.left_out = max(0, len(samples) - partitions_max)
            del samples[partitions_max:]
        yield f"# HELP {name} {self._text}\n# TYPE {name} {self._kind}\n".encode()
        for first in range(0, len(samples), SLICE):
            some = samples[first : first + SLICE]
            lines = [f"{name}{braces(self._labels, values)} {_number(value)}\n" for values, value in some]
            yield "".join(lines).encode()


class ReadHistogram(Collector):
    """The same for histograms: for each label set the number in each bucket, the last unbounded, and the sum."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        samples: Callable[[], Iterable[HistogramSample]],
    ) -> None:
        self.name, self._text, self._labels = name, text, labels
        self._bounds = [*(f"{bound:g}" for bound in bounds), "+Inf"]
        self._samples = samples

    def describe(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(self.name, self._text, labels=self._labels)]

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self.name, self._text, labels=self._labels)
        for values, counts, total in self._samples():
            family.add_metric(values, list(zip(self._bounds, accumulate(counts), strict=True)), total)
        return [family]

    def slices(self) -> Iterator[bytes]:
        samples = list(self._samples())
        yield f"# HELP {self.name} {self._text}\n# TYPE {self.name} histogram\n".encode()
        for values, counts, total in samples:
            yield "".join(self._lines(values, counts, total)).encode()

    def _lines(self, values: Sequence[str], counts: Sequence[int], total: float) -> Iterator[str]:
        own, with_bound, count = braces(self._labels, values), (*self._labels, "le"), 0
        for bound, count in zip(self._bounds, accumulate(counts), strict=True):
            yield f"{self.name}_bucket{braces(with_bound, (*values, bound))} {_number(count)}\n"
        yield f"{self.name}_sum{own} {_number(total)}\n{self.name}_count{own} {_number(count)}\n"


def braces(labels: Sequence[str], values: Sequence[str]) -> str:
    if not values:
        return ""
    pairs = [f'{label}="{_escaped(value)}"' for label, value in zip(labels, values, strict=True)]
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


CONTENT_TYPE = CONTENT_TYPE_LATEST
PARTITIONS_MAX = 10_000
SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

C = TypeVar("C", bound=Collector)


class Family(NamedTuple):
    """A metric as it was declared: the exported name, and what it means."""

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
        """Export all families so far under other names, too: those that `others` gives for an exported name."""
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
