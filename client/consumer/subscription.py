"""What a consumer reads: topics, a pattern, or partitions chosen by hand. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rookery.client.errors import IllegalStateError


@dataclass(frozen=True, slots=True)
class Subscription:
    """`topics` by name, a `pattern` matched here, or a pattern that the coordinator matches."""

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    coordinator_pattern: str | None = None
    by_hand: bool = False

    @property
    def empty(self) -> bool:
        return not (self.topics or self.pattern or self.coordinator_pattern or self.by_hand)

    def matching(self, topics: Iterable[str]) -> frozenset[str]:
        """The names to read, of all there are."""
        if self.pattern is None:
            return self.topics
        return frozenset(topic for topic in topics if self.pattern.fullmatch(topic))


NOTHING = Subscription()


def subscription(
    topics: str | Iterable[str] | None, pattern: str | re.Pattern[str] | None, *, by_coordinator: bool
) -> Subscription:
    """What a user asked for. A text as pattern goes to the coordinator if that can match (`by_coordinator`); a compiled
    one is Python's and is matched here."""
    if (topics is None) == (pattern is None):
        raise IllegalStateError("subscribe needs either topics or a pattern")
    if pattern is not None:
        if isinstance(pattern, str) and by_coordinator:
            return Subscription(coordinator_pattern=pattern)
        return Subscription(pattern=re.compile(pattern))
    assert topics is not None
    names = frozenset([topics] if isinstance(topics, str) else topics)
    if not names or not all(isinstance(name, str) and name for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise IllegalStateError("subscribe needs names of topics", "Call unsubscribe() to read nothing")
    return Subscription(topics=names)
