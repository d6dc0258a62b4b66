"""What must hold after every committed batch: the invariants of the metadata state machine, kept by an observer
that replays the log by itself."""

from collections.abc import Iterable

from rookery.controller.state.defaults import Defaults, rules_of
from rookery.core.metadata import records as r
from rookery.core.metadata.codec import decode
from rookery.core.metadata.delta import LatestImage
from rookery.core.metadata.image import EMPTY, Changes, Image, LeaderRecoveryState, Partition, PartitionChange
from rookery.core.metadata.snapshot import state_hash
from rookery.core.metadata_log import CommittedBatch

HASH_EVERY = 5
"""Batches between two states whose hash is kept."""


class Violation(AssertionError):
    """An invariant does not hold."""


def require(holds: object, invariant: str, what: str, *values: object) -> None:
    if not holds:
        raise Violation(f"{invariant}: {what} {' '.join(map(str, values))}")


class Observer:
    """Sees each committed batch once, first of all."""

    def __init__(self, defaults: Defaults) -> None:
        self._defaults = defaults
        self._fold = LatestImage()
        self._hashes: dict[int, str] = {EMPTY.offset: state_hash(EMPTY)}
        self._broker_epochs: set[int] = set()
        self.topic_ids: set[object] = set()
        self.topic_names: set[str] = set()
        self.clean_stops: dict[int, int] = {}
        self.fenced: list[int] = []
        self._seen = 0
        self.compared = 0
        self.elections = 0
        self.unclean = 0

    @property
    def image(self) -> Image:
        return self._fold.image

    def committed(self, batch: CommittedBatch) -> None:
        before = self.image
        changes = self._fold.on_commit(batch)
        require(changes is not None, "R6", "a batch was committed twice")
        if changes is None:
            return
        self._seen += 1
        if self._seen % HASH_EVERY == 0:
            self._hashes[batch.last_offset] = state_hash(self.image)
        records = [(offset, decode(value)) for offset, value in enumerate(batch.values, batch.base_offset)]
        self._check_records(before, records)
        self._check_brokers(changes)
        for change in changes.partitions:
            self._check_change(change)
            if change.after is not None:
                self._check_partition(change.topic, change.after)
        if changes.brokers or changes.configs:
            for topic, _, partition in self.image.partitions():
                self._check_partition(topic.name, partition)

    def check_view(self, image: Image) -> None:
        """M1: whoever is at this offset holds this state."""
        if image.offset == self.image.offset:
            require(self.image == image, "M1", "another state at offset", image.offset)
        elif image.offset in self._hashes:
            self.compared += 1
            same = self._hashes[image.offset] == state_hash(image)
            require(same, "M1", "another state at offset", image.offset)

    def _check_records(self, before: Image, records: Iterable[tuple[int, r.Record]]) -> None:
        for offset, record in records:
            if isinstance(record, r.RegisterBrokerRecord):
                require(offset not in self._broker_epochs, "M7", "a broker epoch was used before", offset)
                self._broker_epochs.add(offset)
                require(self.image.brokers[record.broker_id].epoch == offset, "M7", "epoch is not the offset")
                self._check_unclean(before, record)
            if isinstance(record, r.TopicRecord):
                require(record.topic_id not in self.topic_ids, "M12", "a topic id was used again", record)
                self.topic_ids.add(record.topic_id)
                self.topic_names.add(record.name)

    def _check_unclean(self, before: Image, record: r.RegisterBrokerRecord) -> None:
        """M8: who did not stop cleanly holds nothing after its registration."""
        known = before.brokers.get(record.broker_id)
        clean = known is not None and self.clean_stops.get(record.broker_id) == known.epoch
        for topic, index, partition in self.image.partitions():
            held = record.broker_id in partition.isr or (not clean and record.broker_id in partition.elr)
            require(not held, "M8", "still counted on", record.broker_id, topic.name, index)

    def _check_brokers(self, changes: Changes) -> None:
        for broker_id in changes.brokers:
            old, new = changes.before.brokers.get(broker_id), changes.after.brokers.get(broker_id)
            if old and new and old.epoch == new.epoch and new.fenced and not old.fenced:
                self.fenced.append(broker_id)

    def _check_change(self, change: PartitionChange) -> None:
        old, new = change.before, change.after
        if old is None or new is None:
            return
        removed = not set(old.replicas) <= set(new.replicas)
        steps = new.partition_epoch - old.partition_epoch
        require(steps >= 1, "M3", "the partition epoch did not rise", change)
        if steps == 1:
            expected = int(new.leader != old.leader or removed)
            require(new.leader_epoch - old.leader_epoch == expected, "M3", "wrong leader epoch", change)
            self._check_election(change.topic, old, new)

    def _check_election(self, topic: str, old: Partition, new: Partition) -> None:
        """M9, as far as it can be told from outside."""
        if new.leader in (-1, old.leader):
            return
        self.elections += 1
        recovering = new.leader_recovery_state is LeaderRecoveryState.RECOVERING
        moved = old.reassigning and not new.reassigning and not recovering
        if moved or new.leader in old.isr or new.leader in old.elr:
            return  # where a reassignment ends, the leader may have joined by the same AlterPartition
        self.unclean += 1
        alone = recovering and new.isr == (new.leader,)
        require(alone, "M9", "elected from nowhere", topic, old, new)
        last = old.last_known_elr == (new.leader,) or (old.leader == -1 and not old.elr)
        allowed = rules_of(self.image, topic, self._defaults).unclean or last
        require(allowed, "M9", "an unclean election that nobody allowed", topic, old, new)

    def _check_partition(self, topic: str, partition: Partition) -> None:
        rules = rules_of(self.image, topic, self._defaults)
        isr, elr = set(partition.isr), set(partition.elr)
        require(isr <= set(partition.replicas), "M4", "ISR outside the replicas", topic, partition)
        require(partition.leader == -1 or partition.leader in isr, "M4", "leader not in ISR", topic, partition)
        require(not isr & elr, "M4", "ELR and ISR overlap", topic, partition)
        enough = len(isr) >= min(rules.min_insync_replicas, len(partition.replicas))
        require(not (enough and elr), "M4", "ELR though enough are in sync", topic, partition)
        for broker in isr:
            require(self.image.active(broker), "M5", "out of service but in sync", broker, topic, partition)
