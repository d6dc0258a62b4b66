"""The controller's metrics, under the names Kafka's dashboards ask for.

Counts over all partitions are kept up with each committed change, never by a pass over the image; after a
snapshot, too, since a snapshot arrives as a change.
"""

from collections import deque
from collections.abc import Callable, Iterable

from rookery.controller.events import unclean
from rookery.core.metadata.image import EMPTY, Changes, Image, Partition
from rookery.core.metrics import Metrics

KAFKA_CONTROLLER = "kafka_controller_kafkacontroller_"
EVENT_QUEUE_TIME = "kafka_controller_controllereventmanager_eventqueuetimems"
EVENT_PROCESSING_TIME = "kafka_controller_controllereventmanager_eventqueueprocessingtimems"
UNCLEAN_ELECTIONS = "kafka_controller_controllerstats_uncleanleaderelections"
QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999)


class Times:
    """The last durations of something, for quantiles."""

    def __init__(self, kept: int = 1000) -> None:
        self._last: deque[float] = deque(maxlen=kept)
        self.count = 0

    def add(self, seconds: float) -> None:
        self._last.append(seconds * 1000)
        self.count += 1

    def quantiles(self) -> Iterable[tuple[tuple[str, ...], float]]:
        values = sorted(self._last)
        if values:
            for quantile in QUANTILES:
                yield (str(quantile),), values[min(len(values) - 1, int(quantile * len(values)))]


class ControllerMetrics:
    """Counters the controller raises, and counts of what its committed image holds."""

    def __init__(self) -> None:
        self.active = False
        self.activations = 0
        self.events_started = 0
        self.events_timed_out = 0
        self.heartbeats_timed_out = 0
        self.queue_time = Times()
        self.processing_time = Times()
        self.unclean_elections = 0
        self.offline_partitions = 0
        self.imbalanced_partitions = 0
        self.partitions = 0
        self.image: Image = EMPTY

    def committed(self, changes: Changes) -> None:
        self.image = changes.after
        for change in changes.partitions:
            self._count(change.before, -1)
            self._count(change.after, +1)
            self.unclean_elections += unclean(change)

    def _count(self, partition: Partition | None, by: int) -> None:
        if partition is not None:
            self.partitions += by
            self.offline_partitions += by * (not partition.has_leader)
            self.imbalanced_partitions += by * (partition.leader != partition.preferred_leader)

    def register(self, metrics: Metrics) -> None:
        """Make everything readable in `metrics`."""
        for name, text, value in self._gauges():
            metrics.read_value(KAFKA_CONTROLLER + name, text, value)
        metrics.read_value(
            UNCLEAN_ELECTIONS,
            "Leaders elected that may lack committed records.",
            lambda: self.unclean_elections,
            kind="counter",
        )
        for name, text, times in (
            (EVENT_QUEUE_TIME, "Time events wait before they are handled.", self.queue_time),
            (EVENT_PROCESSING_TIME, "Time it takes to handle an event.", self.processing_time),
        ):
            metrics.read(name, text, times.quantiles, labels=("quantile",))
            metrics.read_value(f"{name}_count", f"{text} Events measured.", _count_of(times))

    def _gauges(self) -> Iterable[tuple[str, str, Callable[[], float]]]:
        yield "activecontrollercount", "1 on the active controller, 0 elsewhere.", lambda: float(self.active)
        yield "offlinepartitionscount", "Partitions without a leader.", lambda: self.offline_partitions
        yield (
            "preferredreplicaimbalancecount",
            "Partitions led by another than their preferred replica.",
            lambda: self.imbalanced_partitions,
        )
        yield "globaltopiccount", "Topics.", lambda: len(self.image.topics)
        yield "globalpartitioncount", "Partitions.", lambda: self.partitions
        yield "fencedbrokercount", "Registered brokers out of service.", lambda: self._brokers(fenced=True)
        yield "activebrokercount", "Brokers in service.", lambda: self._brokers(fenced=False)
        yield "lastappliedrecordoffset", "Last metadata record applied.", lambda: self.image.offset
        yield "newactivecontrollerscount", "Times this node became active.", lambda: self.activations
        yield "timedoutbrokerheartbeatcount", "Brokers fenced without heartbeats.", lambda: self.heartbeats_timed_out
        yield "eventqueueoperationsstartedcount", "Events handled.", lambda: self.events_started
        yield "eventqueueoperationstimedoutcount", "Events given up.", lambda: self.events_timed_out

    def _brokers(self, *, fenced: bool) -> int:
        return sum(broker.fenced == fenced for broker in self.image.brokers.values())


def _count_of(times: Times) -> Callable[[], float]:
    return lambda: times.count
