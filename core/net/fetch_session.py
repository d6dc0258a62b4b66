"""The client's side of a fetch session (KIP-227): its id and epoch, for followers and consumers alike.

Pure. A session begins with a full request; from then on a request names only partitions that are new or whose position
moved, and those to forget. When the node no longer knows the session, or an answer never came, it begins again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.fetch import FetchTopic, ForgottenTopic

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
SESSION_LOST = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The part of a fetch request that the session decides."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class ClientSession:
    """A session with one node. Who uses it remembers which positions were sent."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH

    @property
    def begins(self) -> bool:
        """Whether the next request is a full one and has to name every partition."""
        return self._epoch == INITIAL_EPOCH

    def request(self, topics: list[FetchTopic], forgotten: Iterable[tuple[str, UUID, int]]) -> SessionRequest:
        """The next request; `forgotten` are partitions by topic, topic id and index."""
        gone: dict[tuple[str, UUID], list[int]] = {}
        for topic, topic_id, index in forgotten:
            gone.setdefault((topic, topic_id), []).append(index)
        forget = [ForgottenTopic(topic=name, topic_id=id, partitions=each) for (name, id), each in gone.items()]
        return SessionRequest(self._id, self._epoch, topics, forget)

    def answered(self, error_code: int, session_id: int) -> bool:
        """Note the answer; False if the session is lost and the answer says nothing about partitions."""
        if error_code in SESSION_LOST:
            self.reset()
            return False
        self._id = session_id
        if session_id == NO_SESSION:
            self.reset()  # the node keeps no session for us: every request is a full one
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def reset(self) -> None:
        """Begin a new session: the next request ends the old one at the node."""
        self._epoch = INITIAL_EPOCH

    def last_request(self) -> SessionRequest | None:
        """The request that lets the node forget the session; None if it keeps none."""
        return None if self._id == NO_SESSION else SessionRequest(self._id, FINAL_EPOCH, [], [])
