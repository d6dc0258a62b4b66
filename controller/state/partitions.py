"""One partition's next state: who is in sync, who is eligible, who leads, and the record that says so.

Every handler that touches a partition goes through `Electorate.change`, so the rules hold for every request: in sync ⊆
replicas; the leader is in sync; ELR and ISR are disjoint; ELR is empty while enough replicas are in sync; the leader
epoch rises exactly when the leader changes or a replica is removed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from rookery.controller.state.defaults import Defaults, TopicRules, rules_of
from rookery.controller.state.election import Candidates, Elected, Election, elect
from rookery.core.metadata.image import Image, LeaderRecoveryState, Partition, Topic
from rookery.core.metadata.records import PartitionChangeRecord
from rookery.core.types import NO_NODE

Ids = tuple[int, ...]


class Wanted(NamedTuple):
    """What a handler wants of a partition; None leaves it as it is. `lost` are replicas that may have lost
    committed records (unclean shutdown, failed directory): they leave the ISR and the ELR."""

    isr: Ids | None = None
    replicas: Ids | None = None
    adding: Ids | None = None
    removing: Ids | None = None
    recovery: LeaderRecoveryState | None = None
    directories: tuple[UUID, ...] | None = None
    lost: Ids = ()
    election: Election = Election.ONLINE


NOTHING = Wanted()


class Electorate:
    """Decides partition changes against one image."""

    def __init__(self, image: Image, defaults: Defaults) -> None:
        self.image = image
        self._defaults = defaults
        self._rules: dict[str, TopicRules] = {}

    def rules(self, topic: str) -> TopicRules:
        rules = self._rules.get(topic)
        if rules is None:
            rules = self._rules[topic] = rules_of(self.image, topic, self._defaults)
        return rules

    def change(
        self, topic: Topic, index: int, partition: Partition, wanted: Wanted
    ) -> PartitionChangeRecord | None:
        """The record that brings the partition from what it is to what is wanted and allowed; None if that is
        no change."""
        rules = self.rules(topic.name)
        after = self._next(partition, wanted, rules)
        return _record(topic.id, index, partition, after)

    def reconsidered(self, concerned: Callable[[Topic], bool] = lambda topic: True) -> list[PartitionChangeRecord]:
        """After a change of the rules: what depends on them, partitions without a leader, with eligible replicas, or
        whose reassignment waits for enough replicas in sync, is decided once more."""
        changes = (
            self.change(topic, index, partition, NOTHING)
            for topic, index, partition in self.image.partitions()
            if _depends_on_rules(partition) and concerned(topic)
        )
        return [change for change in changes if change is not None]

    def _next(self, old: Partition, wanted: Wanted, rules: TopicRules) -> Partition:
        draft = _completed(_draft(old, wanted), rules)
        if not rules.elr and not draft.isr:
            draft = _without_elr(old, draft, wanted.lost, rules)
        eligible = _eligible(old, draft, wanted.lost) if rules.elr else ()
        elected = self._elect(old, draft, eligible, wanted.election, rules)
        if elected.leader == NO_NODE:
            return _leaderless(old, draft, eligible, rules)
        if elected.leader not in draft.isr:
            draft = draft._replace(isr=(elected.leader,))
        if not elected.clean:
            draft = draft._replace(leader_recovery_state=LeaderRecoveryState.RECOVERING)
            eligible = ()
        return draft._replace(leader=elected.leader, elr=_elr(draft, eligible, rules), last_known_elr=())

    def _elect(
        self, old: Partition, draft: Partition, eligible: Ids, election: Election, rules: TopicRules
    ) -> Elected:
        if election is Election.ONLINE and rules.unclean:
            election = Election.UNCLEAN
        last = _last_known(old) if rules.elr and rules.last_known_leader else NO_NODE
        candidates = Candidates(draft.replicas, draft.isr, eligible, last, draft.leader)
        return elect(candidates, election, lambda broker: self.image.can_serve(draft, broker))


def _depends_on_rules(partition: Partition) -> bool:
    return bool(partition.elr or partition.last_known_elr or not partition.has_leader or partition.reassigning)


def enough_in_sync(partition: Partition, rules: TopicRules) -> bool:
    return len(partition.isr) >= min(rules.min_insync_replicas, len(partition.replicas))


def _draft(old: Partition, wanted: Wanted) -> Partition:
    replicas = old.replicas if wanted.replicas is None else wanted.replicas
    isr = old.isr if wanted.isr is None else wanted.isr
    return old._replace(
        replicas=replicas,
        isr=tuple([broker for broker in isr if broker in replicas and broker not in wanted.lost]),
        adding_replicas=old.adding_replicas if wanted.adding is None else wanted.adding,
        removing_replicas=old.removing_replicas if wanted.removing is None else wanted.removing,
        leader_recovery_state=old.leader_recovery_state if wanted.recovery is None else wanted.recovery,
        directories=old.directories_of(replicas) if wanted.directories is None else wanted.directories,
    )


def _completed(draft: Partition, rules: TopicRules) -> Partition:
    """The reassignment comes to its end when all added replicas are in sync and the remaining ones suffice."""
    if not draft.reassigning:
        return draft
    replicas = tuple(broker for broker in draft.replicas if broker not in draft.removing_replicas)
    isr = tuple(broker for broker in draft.isr if broker in replicas)
    suffices = min(rules.min_insync_replicas, len(replicas), len(draft.isr))
    if not isr or len(isr) < suffices or not set(draft.adding_replicas) <= set(isr):
        return draft
    return draft._replace(
        replicas=replicas,
        isr=isr,
        adding_replicas=(),
        removing_replicas=(),
        directories=draft.directories_of(replicas),
    )


def _without_elr(old: Partition, draft: Partition, lost: Ids, rules: TopicRules) -> Partition:
    """ELR was switched off while no replica was in sync. From now on the last in sync stay noted as such: that is what
    the eligible replicas are, or the last leader there was, who may lack records."""
    isr = tuple(broker for broker in draft.replicas if broker in old.elr and broker not in lost)
    if isr or not rules.last_known_leader:
        return draft._replace(isr=isr)
    last = tuple(broker for broker in old.last_known_elr if broker in draft.replicas)
    if not last:
        return draft
    return draft._replace(isr=last, leader_recovery_state=LeaderRecoveryState.RECOVERING)


def _eligible(old: Partition, draft: Partition, lost: Ids) -> Ids:
    """Who holds all committed records without being in sync, if too few are in sync."""
    held, isr = old.isr + old.elr, draft.isr
    return tuple([b for b in draft.replicas if b in held and b not in isr and b not in lost])


def _elr(draft: Partition, eligible: Ids, rules: TopicRules) -> Ids:
    if enough_in_sync(draft, rules):
        return ()
    return tuple(broker for broker in eligible if broker not in draft.isr)


def _leaderless(old: Partition, draft: Partition, eligible: Ids, rules: TopicRules) -> Partition:
    """No replica can lead. Without ELR the last in sync stay noted as such: they alone may lead later."""
    if not rules.elr:
        isr = draft.isr or tuple(broker for broker in old.isr if broker in draft.replicas)
        return draft._replace(isr=isr, leader=NO_NODE, elr=(), last_known_elr=())
    last = _last_known(old)
    last_known = () if draft.isr or last == NO_NODE else (last,)
    return draft._replace(leader=NO_NODE, elr=_elr(draft, eligible, rules), last_known_elr=last_known)


def _last_known(old: Partition) -> int:
    if old.leader != NO_NODE:
        return old.leader
    return old.last_known_elr[0] if old.last_known_elr else NO_NODE


def _record(topic_id: UUID, index: int, old: Partition, new: Partition) -> PartitionChangeRecord | None:
    if old == new:
        return None
    removed = old.replicas != new.replicas and not set(old.replicas) <= set(new.replicas)
    return PartitionChangeRecord(
        topic_id,
        index,
        isr=_changed(old.isr, new.isr),
        leader=new.leader if removed or new.leader != old.leader else None,
        replicas=_changed(old.replicas, new.replicas),
        removing_replicas=_changed(old.removing_replicas, new.removing_replicas),
        adding_replicas=_changed(old.adding_replicas, new.adding_replicas),
        leader_recovery_state=(
            None if new.leader_recovery_state == old.leader_recovery_state else new.leader_recovery_state
        ),
        directories=_changed(old.directories_of(new.replicas), new.directories),
        elr=_changed(old.elr, new.elr),
        last_known_elr=_changed(old.last_known_elr, new.last_known_elr),
    )


def _changed(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...] | None:
    return None if old == new else new
