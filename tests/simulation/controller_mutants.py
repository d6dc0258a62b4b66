"""Bugs planted on purpose: the simulator must find each of them, or it would not find a real one either."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from rookery.controller import sessions, table, writer
from rookery.controller.state import alter_partition, brokers, configs, election, partitions
from rookery.controller.state.decision import decided
from rookery.core.errors import ErrorCode
from rookery.core.metadata import delta, snapshot
from rookery.core.metadata.records import RegisterBrokerRecord
from rookery.core.metadata.requests import AllocateProducerIdsReply

Plant = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`seed` is the first one that kills it."""

    name: str
    invariants: tuple[str, ...]
    plant: Plant
    seed: int


def _swap(target: Any, name: str, make: Callable[[Any], Any]) -> Plant:
    """Replace `target.name` by `make(the original)`."""

    @contextmanager
    def planted() -> Iterator[None]:
        with patch.object(target, name, make(getattr(target, name))):
            yield

    return planted


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda original: lambda *args, **kwargs: value


def _first_record_only(original: Any) -> Any:
    return lambda *args, **kwargs: original(*args, **kwargs)[:1]


def _never_lost(original: Any) -> Any:
    return lambda *args, lost: original(*args, lost=False)


def _no_grant(original: Any) -> Any:
    def begin(self: sessions.Sessions, image: Any, now: float) -> None:
        original(self, image, now)
        for session in self._sessions.values():
            session.deadline = now

    return begin


def _same_leader_epoch(original: Any) -> Any:
    return lambda old, record: original(old, record)._replace(leader_epoch=old.leader_epoch)


def _anyone_leads(original: Any) -> Any:
    def elect(candidates: Any, kind: Any, can_lead: Any) -> election.Elected:
        alive = [broker for broker in candidates.replicas if can_lead(broker)]
        return election.Elected(alive[0]) if alive else election.NOT_ELECTED

    return elect


def _one_epoch(original: Any) -> Any:
    def register(self: delta.Delta, record: Any) -> None:
        original(self, replace(record, broker_epoch=1))

    return register


def _without_elr(original: Any) -> Any:
    return lambda *args: replace(original(*args), elr=())


MUTANTS = [
    Mutant(
        "an answer is given before it is committed",
        ("M2",),
        _swap(writer.Writer, "park", lambda original: lambda self, release: release()),
        0,
    ),
    Mutant("what was proposed survives the loss of leadership", ("M2",), _swap(writer.Writer, "drop", _always([])), 1),
    Mutant("a fenced broker stays in sync", ("M5",), _swap(brokers, "_out_of_service", _always([])), 0),
    Mutant("an unclean stop costs nothing", ("M8",), _swap(brokers, "_out_of_service", _never_lost), 0),
    Mutant("a new controller grants nobody a session", ("M10",), _swap(sessions.Sessions, "begin", _no_grant), 1),
    Mutant(
        "everybody is taken for gone",
        ("M10",),
        _swap(sessions.Sessions, "_gone", _always(True)),
        0,
    ),
    Mutant(
        "producer ids are given and not noted",
        ("M11",),
        _swap(
            table,
            "allocate_producer_ids",
            lambda original: lambda image, request: decided((), AllocateProducerIdsReply(image.next_producer_id, 1000)),
        ),
        0,
    ),
    Mutant("a new leader has the old epoch", ("M3",), _swap(delta, "changed", _same_leader_epoch), 0),
    Mutant("anybody alive may lead", ("M4", "M9"), _swap(partitions, "elect", _anyone_leads), 0),
    Mutant(
        "the ELR is kept though enough are in sync",
        ("M4",),
        _swap(partitions, "_elr", lambda original: lambda draft, eligible, rules: eligible),
        0,
    ),
    Mutant(
        "all registrations have one epoch",
        ("M7",),
        lambda: patch.dict(
            delta.Delta._REPLAY,
            {RegisterBrokerRecord: _one_epoch(delta.Delta._REPLAY[RegisterBrokerRecord])},
        ),
        0,
    ),
    Mutant(
        "anybody may join the ISR",
        ("M5", "M6"),
        _swap(alter_partition, "_check_members", _always(ErrorCode.NONE)),
        0,
    ),
    Mutant(
        "a snapshot forgets the ELR",
        ("M1",),
        _swap(snapshot, "_partition", _without_elr),
        0,
    ),
    Mutant(
        "lowering min.insync.replicas keeps the ELR",
        ("M4",),
        _swap(configs, "_after_new_rules", _always([])),
        6,
    ),
]
