"""The metrics that matter most, of each node and of the cluster, from two looks at the nodes' pages. Opens no
connection and reads no clock."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOPICS = "kafka_server_brokertopicmetrics_"
REPLICAS = "kafka_server_replicamanager_"
TIMES = "kafka_network_requestmetrics_totaltimems"
LAG = "kafka_consumergroup_lag_sum"
CONTROLLER = "kafka_controller_kafkacontroller_"
CONNECTIONS = "kafka_server_socket_server_metrics_connection_count"
ALL_NODES = "all"
COLUMNS = (
    "node", "messages-in/s", "MB-in/s", "MB-out/s", "produce-p99-ms", "fetch-p99-ms", "leaders", "under-replicated",
    "offline", "lag", "connections",
)  # fmt: skip
_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float


def read_samples(text: str) -> list[Sample]:
    """The samples of a page in the text format of Prometheus; lines that are none are left out."""
    found = []
    for line in text.splitlines():
        match = _LINE.match(line) if not line.startswith("#") else None
        if match is not None:
            try:
                found.append(Sample(match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
            except ValueError:
                continue
    return found


@dataclass(frozen=True, slots=True)
class Look:
    """What one node showed at one time."""

    at_s: float
    samples: Sequence[Sample]

    def total(self, name: str, **labels: str) -> float:
        wanted = labels.items()
        return sum(each.value for each in self.samples if each.name == name and wanted <= each.labels.items())

    def highest(self, name: str, **labels: str) -> float:
        wanted = labels.items()
        found = [each.value for each in self.samples if each.name == name and wanted <= each.labels.items()]
        return max((each for each in found if each == each), default=0.0)  # not a number: nothing was measured


def rows(before: Mapping[int, Look], now: Mapping[int, Look]) -> list[dict[str, Any]]:
    """One row for each node that was seen twice, and one for all of them."""
    found = [_row(node, before[node], now[node]) for node in sorted(before.keys() & now.keys())]
    return [*found, _together(found)] if found else []


def _row(node: int, before: Look, now: Look) -> dict[str, Any]:
    seconds = max(now.at_s - before.at_s, 1e-3)

    def rate(name: str) -> float:
        """A node that was started in between begins at zero again."""
        return max(now.total(name) - before.total(name), 0.0) / seconds

    return dict(
        zip(
            COLUMNS,
            (
                node,
                round(rate(f"{TOPICS}messagesin_total"), 1),
                round(rate(f"{TOPICS}bytesin_total") / 1e6, 3),
                round(rate(f"{TOPICS}bytesout_total") / 1e6, 3),
                round(now.highest(TIMES, request="Produce", quantile="0.99"), 1),
                round(now.highest(TIMES, request="Fetch", quantile="0.99"), 1),
                int(now.total(f"{REPLICAS}leadercount")),
                int(now.total(f"{REPLICAS}underreplicatedpartitions")),
                int(now.highest(f"{CONTROLLER}offlinepartitionscount")),
                int(now.total(LAG)),
                int(now.total(CONNECTIONS)),
            ),
            strict=True,
        )
    )


def _together(found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums; times are those of the slowest node, and the controllers count the same offline partitions."""
    each = list(found)
    worst = ("produce-p99-ms", "fetch-p99-ms", "offline")
    sums = {name: round((max if name in worst else sum)(row[name] for row in each), 3) for name in COLUMNS[1:]}
    return {"node": ALL_NODES, **sums}
