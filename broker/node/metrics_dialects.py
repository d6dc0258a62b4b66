"""Names of Kafka's metrics in other exporters: dashboards written for them find what they ask for.

The names of every node are those of jmx_exporter's example; `rookery.metrics.dialects` adds others beside them.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from rookery.core.metrics import Metrics

STRIMZI = "strimzi"
"""What Strimzi makes of JMX: the quorum's metrics have another prefix."""
STRIMZI_REPORTER = "strimzi-reporter"
"""Strimzi's Metrics Reporter: the names of Kafka's meters in full, as counters."""
MIXIN = "mixin"
"""Grafana's mixin for Kafka: meters are counters without a suffix, or rates."""
DIALECTS = (STRIMZI, STRIMZI_REPORTER, MIXIN)

METERS = (
    "kafka_server_brokertopicmetrics_",
    "kafka_server_replicamanager_isr",
    "kafka_server_replicamanager_failedisrupdates",
    "kafka_controller_controllerstats_",
)
RATES = (
    "kafka_server_replicamanager_isrshrinks",
    "kafka_server_replicamanager_isrexpands",
    "kafka_controller_controllerstats_uncleanleaderelections",
)
"""The mixin's alerts expect these to be 0 when nothing has happened for a while."""
RENAMED = {
    (STRIMZI_REPORTER, "kafka_network_socketserver_networkprocessoravgidle_percent"): (
        "kafka_network_socketserver_networkprocessoravgidlepercent"
    ),
}
RAFT = "kafka_server_raft_metrics_"
RATE_WINDOW_S = 60.0


def other_names(dialect: str, name: str) -> Iterator[str]:
    """What a dialect calls a metric, where it differs."""
    if (dialect, name) in RENAMED:
        yield RENAMED[dialect, name]
    if dialect == STRIMZI and name.startswith(RAFT):
        yield "kafka_server_raftmetrics_" + name.removeprefix(RAFT)
    if not name.startswith(METERS):
        return
    meter = name.removesuffix("_total")
    if dialect == STRIMZI_REPORTER:
        yield f"{meter}persec_total"
    if dialect == MIXIN and meter not in RATES:
        yield f"{meter}persec"


class Rate:
    """How much a total has grown per second over the last minute, as seen by those who asked."""

    def __init__(self, time: Callable[[], float], total: Callable[[], float]) -> None:
        self._time = time
        self._total = total
        self._seen: deque[tuple[float, float]] = deque([(time(), total())])

    def __call__(self) -> float:
        now, total = self._time(), self._total()
        while len(self._seen) > 1 and self._seen[1][0] <= now - RATE_WINDOW_S:
            self._seen.popleft()
        (then, before), last = self._seen[0], self._seen[-1][0]
        if now - last >= 1.0:  # however often it is read, what is remembered is bounded
            self._seen.append((now, total))
        return (total - before) / (now - then) if now > then else 0.0


def publish_dialects(metrics: Metrics, dialects: Sequence[str], time: Callable[[], float]) -> None:
    """Add the names of each dialect for everything that is published by now."""
    metrics.rename(lambda name: [other for dialect in dialects for other in other_names(dialect, name)])
    for name in RATES if MIXIN in dialects else ():
        total = metrics.total_of(f"{name}_total")
        if total is not None:  # a node may lack the role that counts it
            metrics.read_value(f"{name}persec", "Per second, over the last minute.", Rate(time, total))
    metrics.read_value(
        "rookery_metrics_left_out",
        "Samples of single partitions left out of a scrape: see rookery.metrics.max.partitions.",
        lambda: metrics.left_out,
    )

