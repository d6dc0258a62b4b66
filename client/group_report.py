"""Why a group lags: facts about it in, findings out. Opens no connection and reads no clock."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rookery.client.admin.types import GroupDescription, MemberDescription
from rookery.client.types import TopicPartition
from rookery.core.flight_recorder import Event

HOT = 0.8
"""A topic, partition or member with this share of the lag has most of it."""
SOON = 0.8
"""Records that wait for this share of the topic's retention are deleted soon."""
LOOP_S = 600.0
LOOP_REMOVALS = 3
"""A group that loses members this often within `LOOP_S` does little but rebalance."""
REBALANCE = "group.rebalance"
"""The event by which coordinators say who came, went and why."""
NAMES_SHOWN = 3
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


NO_LEADER = -1
NOT_THERE = -2
"""The leader of a partition that does not exist any more: the group has offsets of a deleted topic."""


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
    stable: int = -1
    """The last stable offset; -1 where it is not known."""
    retention_s: float = -1.0
    """For how long the topic keeps records; -1 for ever, or not known."""

    @property
    def lag(self) -> int:
        return max(0, self.end - max(self.committed, self.log_start))


@dataclass(frozen=True, slots=True)
class GroupFacts:
    group: GroupDescription
    partitions: Sequence[PartitionFacts]
    sample_s: float = 0.0
    """Time between the two samples; 0 if there is but one."""
    events: Sequence[Event] = ()
    """Its rebalances as coordinators recorded them, oldest first; those of Apache Kafka record none."""
    now_ms: int = 0

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
    lost, dead = _overtaken(facts), _leaderless(facts)
    if facts.lag == 0 and not lost:
        return dead if facts.partitions else _looping(facts)
    lost += _overtaking(facts)
    if not facts.group.members:
        return [*lost, *dead, _without_members(facts), *_looping(facts)]
    found = [*lost, *dead, *(_looping(facts) or _rebalancing(facts)), *_unowned(facts)]
    found += _held_back(facts)
    found += _hot(facts) or _slow_member(facts) or _one_topic(facts)
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


def _without_members(facts: GroupFacts) -> Finding:
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
    return [
        Finding(
            f"retention overtook it: {records} record(s) of {_names(lost)} were deleted before they were read",
            ("raise retention.ms or retention.bytes of the topic", "add members so that it keeps up"),
        )
    ]


def _overtaking(facts: GroupFacts) -> list[Finding]:
    """Retention comes near what was not read."""
    near = [
        each
        for each in facts.partitions
        if each.lag and each.committed >= each.log_start and 0 < each.retention_s * SOON <= each.lag_s
    ]
    if not near:
        return []
    worst = max(near, key=lambda each: each.lag_s - each.retention_s)
    left_s = max(worst.retention_s - worst.lag_s, 0.0)
    return [
        Finding(
            f"retention is about to overtake it: the next record of {worst.place} is {worst.lag_s:.0f} s old, the "
            f"topic keeps records for {worst.retention_s:.0f} s; {len(near)} partition(s) lose records "
            + (f"in about {left_s:.0f} s" if left_s else "when their oldest segment is deleted"),
            (
                f"raise retention.ms now: rookery config set topic {worst.place.topic} retention.ms=...",
                "add members, or make the handler quicker",
            ),
        )
    ]


def _looping(facts: GroupFacts) -> list[Finding]:
    """Members come and go: why, as the coordinator recorded it."""
    since = facts.now_ms - LOOP_S * 1000
    recent = [each for each in facts.events if each.name == REBALANCE and each.at_ms >= since]
    removed = [each.fields for each in recent if each.fields.get("what") == "removed"]
    if len(removed) < LOOP_REMOVALS:
        return []
    clients = {
        each.fields.get("member"): each.fields.get("why")
        for each in facts.events
        if each.fields.get("what") == "joined"
    }
    reasons = Counter(str(each.get("why")) for each in removed)
    ((why, times),) = reasons.most_common(1)
    names = Counter(str(clients.get(each.get("member"), each.get("member"))) for each in removed if each["why"] == why)
    rebalances = sum(each.fields.get("what") == "assigned" for each in recent)
    minutes = max(1, round((facts.now_ms - recent[0].at_ms) / 60_000))
    who = ", ".join(name for name, _ in names.most_common(3))
    return [
        Finding(
            f"it rebalances again and again: {rebalances} assignments and {len(removed)} members removed within "
            f"{minutes} min, {times} of them because: {why} ({who})",
            _remedies(why),
        )
    ]


def _remedies(why: str) -> tuple[str, ...]:
    """For members that go: by what the coordinator says of it."""
    if "poll" in why or "rebalance timeout" in why:
        return (
            "its handler takes longer than max.poll.interval.ms: lower max.poll.records, or raise "
            "max.poll.interval.ms",
            "handle records beside the polls, and pause partitions meanwhile",
        )
    if "session timeout" in why:
        return (
            "it dies, is killed, or stands still: look at its log, memory and CPU",
            "long pauses of the process or the network: raise session.timeout.ms",
        )
    return (
        "it is closed again and again: look at what starts and stops it (a crash loop, an autoscaler)",
        "restarts that are wanted: give each member a group.instance.id, then a short restart moves nothing",
    )


def _held_back(facts: GroupFacts) -> list[Finding]:
    """The group has read all that is committed; an open transaction hides the rest."""
    held = [each for each in facts.partitions if 0 <= each.stable <= each.committed and each.lag]
    if not held:
        return []
    first = held[0].place
    return [
        Finding(
            f"an open transaction holds back {sum(each.lag for each in held)} record(s) of {_names(held)} from readers "
            "of committed data: the group has read all before its first record",
            (
                f"see whose it is: rookery transaction producers {first.topic} {first.partition}",
                "let that producer commit or abort; its transaction.timeout.ms ends it otherwise",
            ),
        )
    ]


def _leaderless(facts: GroupFacts) -> list[Finding]:
    dead = [each for each in facts.partitions if each.leader == NO_LEADER]
    if not dead:
        return []
    reason = f"{_names(dead)} cannot be read: no leader; how much waits there is not known"
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
    return [
        Finding(
            f"{len(alone)} partition(s) with {sum(each.lag for each in alone)} record(s) have no member: "
            f"{_names(alone)}",
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


def _one_topic(facts: GroupFacts) -> list[Finding]:
    lags = defaultdict[str, int](int)
    for each in facts.partitions:
        lags[each.place.topic] += each.lag
    worst = max(lags, key=lambda name: lags[name])
    if len(lags) < 2 or lags[worst] < HOT * facts.lag:
        return []
    count = sum(each.place.topic == worst and each.lag > 0 for each in facts.partitions)
    return [
        Finding(
            f"one topic has {lags[worst]} of {facts.lag} record(s): {worst}, in {count} partition(s)",
            (
                "look at what is special about its records: size, work for each, what their handler waits for",
                "give this topic a group of its own",
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


def _names(partitions: Sequence[PartitionFacts]) -> str:
    rest = len(partitions) - NAMES_SHOWN
    return ", ".join(str(each.place) for each in partitions[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
