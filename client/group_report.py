"""Why a group lags: facts about it in, findings out. Opens no connection and reads no clock."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rookery.client.admin.types import GroupDescription, MemberDescription
from rookery.client.types import TopicPartition

HOT = 0.8
"""A partition or member with this share of the lag has most of it."""
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition of a group. `committed` is -1 without a commit, `lag_s` -1 where it is not known."""

    place: TopicPartition
    committed: int
    log_start: int
    end: int
    leader: int
    lag_s: float = -1.0
    committed_before: int = -1
    """Of the sample before, as `end_before`; -1 without one."""
    end_before: int = -1

    @property
    def lag(self) -> int:
        return max(0, self.end - max(self.committed, self.log_start))


@dataclass(frozen=True, slots=True)
class GroupFacts:
    group: GroupDescription
    partitions: Sequence[PartitionFacts]
    sample_s: float = 0.0
    """Time between the two samples; 0 if there is but one."""

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions)

    def owners(self) -> Mapping[TopicPartition, MemberDescription]:
        return {place: member for member in self.group.members for place in member.assignment}


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason, and what to do about it, the best first."""

    reason: str
    remedies: tuple[str, ...]


def explain(facts: GroupFacts) -> list[Finding]:
    """The reasons for which a group lags, the most likely first; none if it does not lag."""
    lost = _overtaken(facts)
    if facts.lag == 0 and not lost:
        return []
    if not facts.group.members:
        return [*lost, _nobody(facts)]
    found = [*lost, *_leaderless(facts), *_rebalancing(facts), *_unowned(facts)]
    found += _hot(facts) or _slow_member(facts)
    found += _rates(facts)
    if not found:
        found.append(
            Finding(
                f"it is {facts.lag} record(s) behind, spread over {len(facts.partitions)} partitions and "
                f"{len(facts.group.members)} member(s)",
                ("ask again with --sample 10 to see whether it catches up", "add members"),
            )
        )
    return found


def _nobody(facts: GroupFacts) -> Finding:
    return Finding(
        f"no consumer runs: the group has no members, and {facts.lag} record(s) wait",
        (
            "start its consumers",
            f"if it is not used any more: rookery group delete {facts.group.group_id}",
        ),
    )


def _overtaken(facts: GroupFacts) -> list[Finding]:
    lost = [each for each in facts.partitions if 0 <= each.committed < each.log_start]
    if not lost:
        return []
    records = sum(each.log_start - each.committed for each in lost)
    names = ", ".join(str(each.place) for each in lost[:3])
    return [
        Finding(
            f"retention overtook it: {records} record(s) of {names} were deleted before they were read",
            ("raise retention.ms or retention.bytes of the topic", "add members so that it keeps up"),
        )
    ]


def _leaderless(facts: GroupFacts) -> list[Finding]:
    names = [str(each.place) for each in facts.partitions if each.leader < 0 and each.lag]
    if not names:
        return []
    reason = f"{', '.join(names[:3])} cannot be read: no leader"
    return [Finding(reason, ("rookery doctor says which node is missing",))]


def _rebalancing(facts: GroupFacts) -> list[Finding]:
    group = facts.group
    if group.state not in REBALANCING:
        return []
    behind = [
        member.client_id
        for member in group.members
        if group.epoch is not None and member.epoch is not None and member.epoch < group.epoch
    ]
    why = f"; {', '.join(sorted(set(behind))[:3])} did not take the new assignment yet" if behind else ""
    return [
        Finding(
            f"it is rebalancing (state {group.state}){why}",
            (
                "if it stays so: a member that handles records for longer than max.poll.interval.ms is evicted and "
                "joins again; lower max.poll.records or raise max.poll.interval.ms",
                "members that come and go: use group.instance.id, or look for crashes",
            ),
        )
    ]


def _unowned(facts: GroupFacts) -> list[Finding]:
    if facts.group.state in REBALANCING:
        return []
    owners = facts.owners()
    alone = [each for each in facts.partitions if each.lag and each.place not in owners]
    if not alone:
        return []
    names = ", ".join(str(each.place) for each in alone[:3])
    return [
        Finding(
            f"{len(alone)} partition(s) with {sum(each.lag for each in alone)} record(s) have no member: {names}",
            ("subscribe the members to these topics", "or forget them: rookery group delete-offsets"),
        )
    ]


def _hot(facts: GroupFacts) -> list[Finding]:
    if len(facts.partitions) < 2:
        return []
    worst = max(facts.partitions, key=lambda each: each.lag)
    if worst.lag < HOT * facts.lag:
        return []
    owner = facts.owners().get(worst.place)
    by = f" (member {owner.client_id} at {owner.host})" if owner is not None else ""
    return [
        Finding(
            f"one partition has {worst.lag} of {facts.lag} record(s): {worst.place}{by}",
            (
                "look at the keys: one of them has most of the records",
                "handle records of one partition in parallel by key",
                "more members do not help: a partition has one",
            ),
        )
    ]


def _slow_member(facts: GroupFacts) -> list[Finding]:
    owners, lags = facts.owners(), defaultdict[str, int](int)
    members = {member.member_id: member for member in facts.group.members}
    for each in facts.partitions:
        owner = owners.get(each.place)
        if owner is not None:
            lags[owner.member_id] += each.lag
    if len(members) < 2 or not lags:
        return []
    slowest = max(lags, key=lambda name: lags[name])
    if lags[slowest] < HOT * facts.lag:
        return []
    member = members[slowest]
    return [
        Finding(
            f"one member has {lags[slowest]} of {facts.lag} record(s): {member.client_id} at {member.host}",
            ("look at that machine and process: CPU, memory, what its handler waits for",),
        )
    ]


def _rates(facts: GroupFacts) -> list[Finding]:
    if not facts.sample_s:
        return []
    sampled = [each for each in facts.partitions if each.committed_before >= 0]
    done = sum(each.committed - each.committed_before for each in sampled)
    came = sum(each.end - each.end_before for each in sampled)
    seconds = f"{facts.sample_s:.0f} s"
    if facts.group.members and facts.lag and done == 0:
        return [
            Finding(
                f"it committed nothing within {seconds}",
                (
                    "a handler that takes long commits late: look again with a longer --sample",
                    "if auto commit is off, does it call commit()?",
                    "a record that always fails is read again and again: skip it or send it to a dead-letter topic",
                ),
            )
        ]
    if came > done:
        return [
            Finding(
                f"more comes than it handles: {came} new, {done} committed within {seconds}",
                ("add members, up to the number of partitions", "make the handler quicker, or handle in batches"),
            )
        ]
    if done > came and facts.lag:
        rest = facts.lag / ((done - came) / facts.sample_s)
        reason = f"it catches up: {done} committed, {came} new within {seconds}; done in about {rest:.0f} s"
        return [Finding(reason, ())]
    return []
