"""What the two group protocols have in common, seen from the consumer.

A membership is a pure state machine. The shell asks it for the next step, carries it out, and reports the outcome:

    while True:
        match membership.next_step(now):
            case Ask() as ask: ...      # send the request to the coordinator, then `answered` or `failed`
            case Wait(until): ...       # until then, or until the membership was changed from outside

What concerns the user's code (partitions are taken or given) is offered as `pending`; the user's own call of poll
carries it out and reports `rebalanced`. Heartbeats go on meanwhile.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.types import TopicPartition
from rookery.core.wire.api import Api
from rookery.core.wire.schema import Struct

FOREVER = float("inf")

LOOK_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""The coordinator is another node."""
LATER = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR}
)
"""The coordinator is right and will answer later."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """What the user's call carries out: first `revoke`, then `assign`."""

    revoke: frozenset[TopicPartition] = frozenset()
    assign: frozenset[TopicPartition] = frozenset()
    lost: bool = False
    """The partitions of `revoke` belong to others already: nothing can be committed for them."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the coordinator. `answered` takes its response."""

    api: Api[Any, Any]
    request: Struct
    answered: Callable[[Any, float], None]
    slow: bool = False
    """The coordinator may hold the answer back until all members are there."""
    at_most: int | None = None
    at_least: int = 0


@dataclass(frozen=True, slots=True)
class Learn:
    """The leader needs the numbers of partitions of these topics: `learned`."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wait:
    until: float


Step = Ask | Learn | Wait


class Membership(Protocol):
    """What the shell needs of either protocol."""

    pending: Rebalance | None
    failure: KafkaError | None
    """Ends the membership; raised to the user."""
    rebalances: int
    reason: str
    """Why the group rebalances, for logs."""

    @property
    def member_id(self) -> str: ...

    @property
    def generation(self) -> int:
        """The generation or the member epoch, for commits; -1 while not a member."""
        ...

    @property
    def owned(self) -> frozenset[TopicPartition]: ...

    @property
    def state(self) -> str: ...

    def subscribe(self, topics: frozenset[str], pattern: str | None = None) -> None:
        """What to read from now on. Nothing: leave the group."""

    def next_step(self, now: float) -> Step: ...

    def learned(self, topics: Mapping[str, int], now: float) -> None:
        """Numbers of partitions by topic, asked for or because they changed."""

    def failed(self, now: float) -> None:
        """A request got no answer, or one that says nothing; whether it was carried out is not known."""

    def rebalanced(self, done: Rebalance, now: float) -> None:
        """The user's call has carried out `done`, which was `pending` when it began."""

    def expire(self, now: float) -> None:
        """The user did not poll within max.poll.interval.ms: leave until it does."""

    def leave(self) -> Ask | None:
        """The request that ends the membership for good; None if there is nothing to end."""
