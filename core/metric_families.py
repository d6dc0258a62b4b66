"""Metric families whose samples are read when somebody scrapes, and how they are written down, piece by piece."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal

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
HistogramSample = tuple[Sequence[str], Sequence[int], float]
"""Label values, how many fell into each bucket, and the sum of all."""


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
