"""Planted bugs of groups of the consumer protocol (KIP-848): partitions with two members or with none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rookery.broker.coordination.commit_queue import CommitQueue
from rookery.broker.groups.consumer import group as groups
from rookery.broker.groups.consumer import member as steps
from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.broker.groups.consumer.member import Current, TopicIdPartition, TopicIdPartitions
from rookery.broker.groups.consumer.stored import Draft, Stored
from rookery.broker.groups.step import Step
from tests.simulation.nodes_planting import BROKEN, Mutant
from tests.simulation.nodes_swarm import Swarm

IsFree = Callable[[TopicIdPartition], bool]


def _with(*faults: str, plan: dict[str, Any] | None = None, **settings: Any) -> Callable[[Swarm], None]:
    """These faults and no others, for a short time; other settings and the members as given."""

    def aim(swarm: Swarm) -> None:
        swarm.faults, swarm.points = dict.fromkeys(faults, 1.0), {}
        swarm.duration_s, swarm.fault_s = 10.0, 2.0
        swarm.session_ms, swarm.heartbeat_ms, swarm.lag_ms = 1500, 250, 2000
        swarm.split, swarm.brokers_more = False, 0
        for name, value in settings.items():
            setattr(swarm, name, value)
        if swarm.consumers is not None:
            members = {"members": 3, "session_ms": 2000, "heartbeat_ms": 200, "assignment_ms": 0, "classic": 0.0}
            swarm.consumers = replace(swarm.consumers, **{**members, **(plan or {})})

    return aim


_reconcile = steps.reconcile


def _waits_for_nobody(
    current: Current, epoch: int, target: TopicIdPartitions, owned: TopicIdPartitions | None, is_free: IsFree
) -> Current:
    return _reconcile(current, epoch, target, owned, lambda place: True)


def _takes_silence_for_letting_go(
    current: Current, epoch: int, target: TopicIdPartitions, owned: TopicIdPartitions | None, is_free: IsFree
) -> Current:
    return _reconcile(current, epoch, target, frozenset() if owned is None else owned, is_free)


def _forgets_what_is_given_up(
    current: Current, epoch: int, target: TopicIdPartitions, owned: TopicIdPartitions | None, is_free: IsFree
) -> Current:
    moved = _reconcile(current, epoch, target, owned, is_free)
    return Current(moved.epoch, moved.previous_epoch, moved.state, moved.assigned)


def _keeps_the_owner(stored: Stored, id: str, held: object) -> None:
    """A partition that was given up still has its owner."""


def _commits_in_any_epoch(group: Any, member: Any, said: int, transactional: bool, places: Any) -> None:
    """Whoever is a member may commit."""


def _lets_the_silent_stay(group: Any, now: Any) -> Step:
    group._due = None
    return Step()


def _leaves_the_epoch(draft: Draft, epoch: int, metadata_hash: int) -> None:
    """A change of the group reaches nobody."""


_add = CommitQueue.add


def _answers_at_once(queue: Any, answers: Sequence[Any], effects: Sequence[Any] = ()) -> None:
    for to, response in answers:
        to.complete(response)
    _add(queue, (), effects)


MUTANTS = (
    Mutant(
        "given before it is free",
        "a member gets its target at once, though others have partitions of it",
        ("G2", *BROKEN),
        ((groups, "reconcile", _waits_for_nobody),),
        _with("kill"),
        "consumers",
    ),
    Mutant(
        "silence taken for letting go",
        "a heartbeat that does not list partitions counts as one without any",
        ("G2",),
        ((groups, "reconcile", _takes_silence_for_letting_go),),
        _with("kill"),
        "consumers",
    ),
    Mutant(
        "what is to be given up is forgotten",
        "partitions that a member was told to give up are free before it has",
        ("G2",),
        ((groups, "reconcile", _forgets_what_is_given_up),),
        _with("kill"),
        "consumers",
    ),
    Mutant(
        "never free again",
        "partitions keep the member that had them first",
        ("liveness",),
        ((Stored, "_disown", _keeps_the_owner),),
        _with("cut_pair"),
        "consumers",
    ),
    Mutant(
        "commits in any epoch",
        "a member commits offsets of a partition that it has no longer",
        ("G4", "G1"),
        ((ConsumerGroup, "_check_epoch", _commits_in_any_epoch),),
        _with("kill", duration_s=15.0, plan={"repeats": 0.6, "members": 4}),
        "consumers",
    ),
    Mutant(
        "silent members stay",
        "whoever vanished without a word keeps its partitions",
        ("liveness",),
        ((ConsumerGroup, "on_time", _lets_the_silent_stay),),
        _with("cut_pair", plan={"static": 0}),
        "consumers",
    ),
    Mutant(
        "group epoch stays",
        "members that come and go change nothing for the others",
        ("liveness", *BROKEN),
        ((Draft, "set_epoch", _leaves_the_epoch),),
        _with("cut_pair"),
        "consumers",
    ),
    Mutant(
        "assignments before their records",
        "members are told what they have before that is committed, and the next coordinator knows nothing of it",
        ("G1", "G2", "G3", *BROKEN),
        ((CommitQueue, "add", _answers_at_once),),
        _with("kill_leader", "isolate", duration_s=15.0, fault_s=1.0, delay_s=0.02),
        "consumers",
    ),
)
