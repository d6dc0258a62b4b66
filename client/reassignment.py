"""Plans for moving replicas: pure functions over brokers and partitions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rookery.client.admin.types import BrokerDescription, TopicDescription
from rookery.client.types import TopicPartition

Plan = dict[TopicPartition, list[int]]
Racks = Mapping[int, str | None]
"""The brokers that may be used, with the rack of each."""


class PlanError(ValueError):
    """The brokers cannot hold what is asked for."""


def spread(topics: Sequence[TopicDescription], brokers: Sequence[BrokerDescription]) -> Plan:
    """Replicas spread evenly over `brokers`, racks apart where that is possible, with few moves: a replica stays
    unless its broker is not named or has more than another. Only partitions that change are in the plan."""
    if not brokers:
        raise PlanError("no broker was named")
    before = {TopicPartition(t.name, p.number): list(p.replicas) for t in topics for p in t.partitions}
    for place, replicas in before.items():
        if len(replicas) > len(brokers):
            raise PlanError(f"{place} has {len(replicas)} replicas, and there are {len(brokers)} brokers")
    racks = {each.id: each.rack for each in brokers}
    load = Counter({each.id: 0 for each in brokers})
    load.update(broker for replicas in before.values() for broker in replicas if broker in racks)
    after = {place: list(replicas) for place, replicas in before.items()}
    for replicas in after.values():
        for at, broker in enumerate(replicas):
            if broker not in racks:
                _move(replicas, at, racks, load)
    while _level(after, racks, load):
        pass
    return {place: replicas for place, replicas in after.items() if replicas != before[place]}


def _move(replicas: list[int], at: int, racks: Racks, load: Counter[int]) -> None:
    """Give one replica to the best broker: of another rack than the rest, with the least load."""
    taken = {racks.get(broker) for number, broker in enumerate(replicas) if number != at} - {None}
    free = [broker for broker in racks if broker not in replicas]
    replicas[at] = min(free, key=lambda broker: (racks[broker] in taken, load[broker], broker))
    load[replicas[at]] += 1


def _level(after: Mapping[TopicPartition, list[int]], racks: Racks, load: Counter[int]) -> bool:
    """Move one replica from a broker to one that has at least two fewer; False if there is nothing to gain."""
    order = sorted(racks, key=lambda broker: (load[broker], broker))
    for most in reversed(order):
        for least in order:
            if load[most] - load[least] < 2:
                break
            for replicas in after.values():
                if most not in replicas or least in replicas:
                    continue
                at = replicas.index(most)
                rest = {racks[broker] for number, broker in enumerate(replicas) if number != at} - {None}
                if racks[least] in rest and racks[most] not in rest:
                    continue  # two replicas would be in one rack
                replicas[at] = least
                load[most] -= 1
                load[least] += 1
                return True
    return False


def drain(topics: Sequence[TopicDescription], brokers: Sequence[BrokerDescription], leaving: int) -> Plan:
    """Every replica of one broker moved to others, and nothing else."""
    rest = [each for each in brokers if each.id != leaving]
    load = dict.fromkeys((each.id for each in rest), 0)
    for topic in topics:
        for part in topic.partitions:
            for broker in part.replicas:
                load[broker] = load.get(broker, 0) + 1
    plan: Plan = {}
    for topic in topics:
        for part in topic.partitions:
            if leaving not in part.replicas:
                continue
            free = [each for each in rest if each.id not in part.replicas]
            if not free:
                place = TopicPartition(topic.name, part.number)
                raise PlanError(f"{place} has a replica on every other broker: lower its replication factor first")
            racks = {each.rack for each in rest if each.id in part.replicas and each.rack is not None}
            chosen = min(free, key=lambda each: (each.rack in racks, load[each.id], each.id)).id
            load[chosen] += 1
            plan[TopicPartition(topic.name, part.number)] = [chosen if b == leaving else b for b in part.replicas]
    return plan


def moves(plan: Mapping[TopicPartition, Sequence[int]], before: Mapping[TopicPartition, Sequence[int]]) -> int:
    """How many replicas are copied."""
    return sum(len(set(replicas) - set(before[place])) for place, replicas in plan.items())


def balance(topics: Sequence[TopicDescription], brokers: Sequence[BrokerDescription]) -> Plan:
    """Replicas spread evenly, and the preferred leaders, too: a partition's first replica is its preferred leader, and
    another of its replicas becomes the first one without a copy."""
    before = {TopicPartition(t.name, p.number): list(p.replicas) for t in topics for p in t.partitions}
    after = {**{place: list(replicas) for place, replicas in before.items()}, **spread(topics, brokers)}
    led = Counter({each.id: 0 for each in brokers})
    led.update(replicas[0] for replicas in after.values() if replicas)
    while _level_leaders(after, led):
        pass
    return {place: replicas for place, replicas in after.items() if replicas != before[place]}


def _level_leaders(after: Mapping[TopicPartition, list[int]], led: Counter[int]) -> bool:
    """Let one partition prefer a broker that leads at least two fewer; False if there is nothing to gain."""
    for replicas in after.values():
        best = min(replicas, key=lambda broker: (led[broker], broker), default=-1)
        if best >= 0 and led[replicas[0]] - led[best] >= 2:
            first, at = replicas[0], replicas.index(best)
            replicas[0], replicas[at] = best, first
            led[first] -= 1
            led[best] += 1
            return True
    return False


class Share(NamedTuple):
    """What a broker holds, and of how many partitions it is the preferred leader."""

    replicas: int
    leaders: int


def shares(replicas: Mapping[TopicPartition, Sequence[int]], brokers: Iterable[int]) -> dict[int, Share]:
    held = Counter(broker for each in replicas.values() for broker in each)
    led = Counter(each[0] for each in replicas.values() if each)
    return {broker: Share(held[broker], led[broker]) for broker in sorted({*brokers, *held})}


class Throttled(NamedTuple):
    """The values of a topic's options that say which replicas a limit holds back: ``partition:broker,...``."""

    leader: str
    follower: str


def throttled(moving: Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]]) -> dict[str, Throttled]:
    """By topic, for partitions with the replicas that are read from and those that are new."""
    sources: dict[str, list[str]] = {}
    targets: dict[str, list[str]] = {}
    for place, (old, new) in sorted(moving.items()):
        sources.setdefault(place.topic, []).extend(f"{place.partition}:{broker}" for broker in old)
        targets.setdefault(place.topic, []).extend(f"{place.partition}:{broker}" for broker in new)
    return {topic: Throttled(",".join(sources[topic]), ",".join(targets[topic])) for topic in sources}
