"""What a coordinator's pure state wants done after one input: records to write, answers to give, effects to carry out.

An effect is something that others shall see and that is no answer: a marker that ends a transaction, a request to
another coordinator. Pure code returns it as data of its own choice; the shell of that coordinator carries it out.
"""

from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from rookery.core.errors import KafkaError

R = TypeVar("R")


class Instant(NamedTuple):
    """One moment on both clocks: deadlines count on the first, what is stored carries the second."""

    ms: int
    """Of a clock that never jumps."""
    wall_ms: int


class Receiver(Protocol):
    """The one that waits for an answer. Pure code only carries it to its answer."""

    def complete(self, response: Any) -> None: ...

    def refuse(self, error: KafkaError) -> None:
        """The decision has no effect: it could not be written, or this broker is no longer the coordinator."""


class Answer(NamedTuple):
    to: Receiver
    response: Any


@dataclass(slots=True)
class Step(Generic[R]):
    """The answers may be given, and the effects carried out, when the records, and all written before them, are
    committed."""

    records: list[R] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    effects: list[Any] = field(default_factory=list)
    """Dropped where the records are not written and where the shard is lost: whoever reads the log next has to be able
    to see from the records which effects may not have been carried out."""
    atomic: bool = True
    """All records or none, in one batch. Otherwise as many batches as it takes; if one cannot be written, those before
    it stand, and whoever asked has to ask again."""

    def answer(self, to: Receiver, response: Any) -> None:
        self.answers.append(Answer(to, response))
