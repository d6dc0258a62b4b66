"""Metrics of groups on the broker that coordinates them, computed when scraped. Those of single groups have
kafka_exporter's names, those of the coordinator Kafka's (`group-coordinator-metrics`)."""

from collections import Counter
from collections.abc import Iterable, Iterator

from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.group_state import GroupState
from rookery.broker.groups.lag import OffsetTimes
from rookery.broker.groups.lag_meter import LagMeter
from rookery.broker.groups.offsets import is_current
from rookery.broker.groups.records import OffsetCommitValue
from rookery.broker.groups.state import AnyGroup
from rookery.core.clock import Clock
from rookery.core.metrics import Metrics, Names, Sample, as_it_is
from rookery.core.types import TopicPartition

PREFIX = "kafka_consumergroup_"
COORDINATOR = "kafka_server_group_coordinator_metrics_"
PROTOCOLS = ("classic", "consumer")
CONSUMER_STATES = (GroupState.EMPTY, GroupState.ASSIGNING, GroupState.RECONCILING, GroupState.STABLE, GroupState.DEAD)
GROUP = ("consumergroup",)
TOPIC = ("consumergroup", "topic")
PARTITION = ("consumergroup", "topic", "partition")
OTHER_PARTITION = ("group", "topic", "partition")
"""As kafka-lag-exporter has it, whose name the lag in seconds goes by."""


class GroupMetrics:
    def __init__(self, groups: GroupCoordinator, meter: LagMeter, clock: Clock, names: Names = as_it_is) -> None:
        self._names = names
        self._groups = groups
        self._meter = meter
        self._clock = clock

    def publish(self, metrics: Metrics) -> None:
        for name, text, samples, labels in (
            ("lag", "Records a group has yet to read.", self.lag, PARTITION),
            ("lag_sum", "Records of a topic that a group has yet to read.", lambda: _by_topic(self.lag()), TOPIC),
            ("current_offset", "Committed offset.", self.offsets, PARTITION),
            ("current_offset_sum", "Sum of committed offsets of a topic.", lambda: _by_topic(self.offsets()), TOPIC),
            ("members", "Members of a group.", self.members, GROUP),
            ("group_lag_seconds", "Age of the record a group has to read next.", self.lag_seconds, OTHER_PARTITION),
        ):
            metrics.read(PREFIX + name, text, samples, labels=labels)
        for name, text, samples, label in (
            ("group_count", "Groups, by protocol.", self.by_protocol, "protocol"),
            ("consumer_group_count", "Groups of the consumer protocol, by state.", self.by_state, "state"),
        ):
            metrics.read(COORDINATOR + name, text, samples, labels=(label,))
        self._groups.publish_metrics(metrics, COORDINATOR)
        metrics.read_value(
            COORDINATOR + "consumer_group_rebalance_count",
            "How often the epoch of a group of the consumer protocol rose.",
            lambda: self._groups.rebalances,
        )

    def lag(self) -> Iterator[Sample]:
        for labels, value, times in self._measured():
            yield labels, times.lag(value.offset)

    def lag_seconds(self) -> Iterator[Sample]:
        now_ms = self._clock.wall_ms()
        for labels, value, times in self._measured():
            yield labels, times.lag_seconds(value.offset, value.commit_timestamp, now_ms)

    def offsets(self) -> Iterator[Sample]:
        for group, (topic, index), value in self._committed():
            yield (self._names(group.id), topic, str(index)), value.offset

    def members(self) -> Iterator[Sample]:
        for group in self._each_group():
            yield (self._names(group.id),), len(group.members)

    def by_protocol(self) -> Iterator[Sample]:
        count = Counter(group.kind for group in self._each_group())
        for protocol in PROTOCOLS:
            yield (protocol,), count[protocol]

    def by_state(self) -> Iterator[Sample]:
        count = Counter(group.state for group in self._each_group() if group.kind == "consumer")
        for state in CONSUMER_STATES:
            yield (state.value.lower(),), count[state]

    def _each_group(self) -> Iterator[AnyGroup]:
        for shard in self._groups.shards:
            yield from shard.groups.groups.values()

    def _committed(self) -> Iterator[tuple[AnyGroup, TopicPartition, OffsetCommitValue]]:
        for group in self._each_group():
            for partition, value in group.offsets:
                if is_current(value, self._groups.topic_id_of(*partition)):
                    yield group, partition, value

    def _measured(self) -> Iterator[tuple[tuple[str, str, str], OffsetCommitValue, OffsetTimes]]:
        """Commits to partitions whose end is known."""
        for group, partition, value in self._committed():
            times = self._meter.times.get(partition)
            if times is not None:
                yield (self._names(group.id), partition.topic, str(partition.partition)), value, times


def _by_topic(samples: Iterable[Sample]) -> Iterable[Sample]:
    totals: dict[tuple[str, str], float] = {}
    for (group, topic, _), value in samples:
        totals[group, topic] = totals.get((group, topic), 0) + value
    return totals.items()
