"""Fetch sessions: a client that follows many partitions sends only what changes, and receives only what
changed.

A session keeps, in the order in which they are read, the partitions a client asked for and the last answer
for each. Pure: ids come from a random generator and times from the caller. Session epochs reveal a
repeated or lost request: 0 begins a session, each further one carries the next number, -1 means no session.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from rookery.core.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)
from rookery.core.wire.apis.fetch import FetchPartition, FetchRequest, PartitionData

if TYPE_CHECKING:
    from rookery.broker.handlers.fetch_read import Quiet
    from rookery.broker.handlers.fetch_rest import PartitionsAtRest

NO_SESSION = 0
FIRST_EPOCH = 0
NO_SESSION_EPOCH = -1
EPOCH_MAX = 2**31 - 1
TOPIC_IDS_FROM = 13
EVICT_AFTER_S = 120.0


class Key(NamedTuple):
    """A partition as the request names it: by name up to version 12, by topic id from 13 on."""

    topic: str
    topic_id: UUID
    partition: int


class Wanted:
    """One partition of a fetch: what is asked for, and the last answer."""

    __slots__ = ("allowed_by", "high_watermark", "key", "log_start_offset", "quiet", "request")

    def __init__(self, key: Key, request: FetchPartition) -> None:
        self.key = key
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1
        self.quiet: Quiet | None = None
        """Set while the partition is known to have nothing for this request."""
        self.allowed_by: object = None
        """The version of a client's access by which it may be read."""

    def ask(self, request: FetchPartition) -> None:
        """The client wants something else from now on."""
        self.request = request
        self.quiet = None

    def is_news(self, data: PartitionData) -> bool:
        """Whether an incremental answer has to mention the partition; remembers what it will contain."""
        news = bool(
            data.records
            or data.error_code
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.diverging_epoch is not None
            or data.preferred_read_replica >= 0
        )
        refused = data.error_code or data.diverging_epoch is not None  # nothing else of it is taken in
        self.high_watermark = -1 if refused else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return news


class Session:
    """The partitions of one client, in the order in which they are read next. A follower's `rest` has those that need
    not be looked at; `active` are the others."""

    __slots__ = ("active", "epoch", "id", "is_follower", "owner", "rest", "used_at", "wanted", "with_topic_ids")

    def __init__(
        self, session_id: int, *, with_topic_ids: bool, is_follower: bool, now: float, owner: str = ""
    ) -> None:
        self.id = session_id
        self.owner = owner
        self.epoch = 1
        self.with_topic_ids = with_topic_ids
        self.is_follower = is_follower
        self.wanted: dict[Key, Wanted] = {}
        self.active: dict[Key, Wanted] = {} if is_follower else self.wanted
        self.rest: PartitionsAtRest | None = None
        self.used_at = now

    def update(self, request: FetchRequest) -> None:
        for wanted in wanted_of(request):
            known = self.wanted.get(wanted.key)
            if known is None:
                self.wanted[wanted.key] = self.active[wanted.key] = wanted
            else:
                self._end_rest(known)
                known.ask(wanted.request)
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                gone = self.wanted.pop(Key(topic.topic, topic.topic_id, index), None)
                if gone is not None:
                    self._end_rest(gone)
                    self.active.pop(gone.key, None)

    def _end_rest(self, wanted: Wanted) -> None:
        if self.rest is not None:
            self.rest.end_rest(wanted)

    def read_last(self, keys: Iterable[Key]) -> None:
        """Put these partitions at the end of the order, so that the others come first next time."""
        for key in keys:
            wanted = self.active.pop(key, None)
            if wanted is not None:
                self.active[key] = wanted

    def end(self) -> None:
        if self.rest is not None:
            self.rest.end()


class Sessions:
    """All sessions of a broker, at most `slots` (max.incremental.fetch.session.cache.slots).

    A session belongs to the user who began it, `owner`. For others it does not exist: ids can be guessed, and a client
    that guesses one must not disturb the session."""

    def __init__(self, slots: int, random: Random) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, Session] = {}  # the least recently used comes first

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions(self) -> int:
        return sum(len(session.wanted) for session in self._sessions.values())

    def open(
        self, request: FetchRequest, version: int, *, is_follower: bool, now: float, owner: str = ""
    ) -> Session | None:
        """The session for a request that begins one; None when there is no place, and the client does
        without."""
        self.close(request.session_id, owner)
        if not request.topics or not self._has_place(is_follower, now):
            return None
        session_id = self._new_id()
        with_ids = version >= TOPIC_IDS_FROM
        session = Session(session_id, with_topic_ids=with_ids, is_follower=is_follower, now=now, owner=owner)
        session.update(request)
        self._sessions[session_id] = session
        return session

    def resume(self, request: FetchRequest, version: int, now: float, owner: str = "") -> Session:
        """The session for its next request, brought up to date; raises KafkaError when it is not the next."""
        session = self._sessions.get(request.session_id)
        if session is None or session.owner != owner:
            raise FetchSessionIdNotFoundError(f"there is no fetch session {request.session_id}")
        del self._sessions[session.id]
        self._sessions[session.id] = session
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpochError(
                f"fetch session {session.id} is at epoch {session.epoch}, not {request.session_epoch}"
            )
        if session.with_topic_ids != (version >= TOPIC_IDS_FROM):
            raise FetchSessionTopicIdError(f"fetch session {session.id} was begun the other way")
        session.update(request)
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.used_at = now
        return session

    def close(self, session_id: int, owner: str = "") -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.owner == owner:
            self._end(session)

    def _end(self, session: Session) -> None:
        del self._sessions[session.id]
        session.end()

    def _has_place(self, is_follower: bool, now: float) -> bool:
        """Make place by ending a session that was not used for long; for a follower, any consumer's."""
        if len(self._sessions) < self._slots:
            return True
        for session in self._sessions.values():
            if now - session.used_at > EVICT_AFTER_S or (is_follower and not session.is_follower):
                self._end(session)
                return True
        return False

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randrange(1, EPOCH_MAX)
            if session_id not in self._sessions:
                return session_id


def wanted_of(request: FetchRequest) -> Iterator[Wanted]:
    """The partitions a request lists, in its order."""
    for topic in request.topics:
        for partition in topic.partitions:
            yield Wanted(Key(topic.topic, topic.topic_id, partition.partition), partition)

