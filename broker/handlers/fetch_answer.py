"""What a fetch answers: all that was asked for, or, within a session, only the news."""

from collections.abc import Iterable, Sequence

from rookery.broker.handlers.fetch_read import FetchRead
from rookery.broker.handlers.fetch_session import NO_SESSION, Session, Sessions, Wanted
from rookery.broker.quotas.charges import FetchAccount
from rookery.broker.server.request_metrics import TopicMetrics
from rookery.core.wire.apis.fetch import FetchableTopicResponse, FetchResponse, PartitionData


class Fetch:
    """One fetch request under way."""

    def __init__(
        self,
        read: FetchRead,
        wanted: Sequence[Wanted],
        session: Session | None,
        is_full: bool,
        metrics: TopicMetrics,
        sessions: Sessions,
        account: FetchAccount | None = None,
    ) -> None:
        self.read = read
        self.wanted = wanted
        self.session = session
        self._is_full = is_full
        self._metrics = metrics
        self._sessions = sessions
        self._account = account

    def read_again(self) -> None:
        """Its wait may be over."""
        if self._account is not None:
            self._account.resume()
        self.read.read()

    def wait(self) -> None:
        """There is not enough yet: what was found is let go, and read again when the wait is over."""
        self.read.data = []
        if self._account is not None:
            self._account.pause()

    def response(self) -> FetchResponse:
        """The answer for what was read last."""
        read = self.read
        if self._account is not None:
            delay_ms = self._account.settle(read.bytes)
            if delay_ms:
                return self._held_back(delay_ms)
        found = zip(self.wanted, read.data, strict=True)
        answers = [(wanted, data) for wanted, data in found if data is not None]
        self._count()
        session = self.session
        if session is not None:
            # every partition is looked at, also for a full answer: the session remembers what it told
            news = [answer for answer in answers if answer[0].is_news(answer[1])]
            session.read_last([wanted.key for wanted, data in news if data.records])
            answers = answers if self._is_full else news
        return FetchResponse(
            session_id=session.id if session is not None else NO_SESSION,
            responses=_by_topic(answers),
            node_endpoints=list(read.endpoints.values()),
        )

    def _held_back(self, delay_ms: int) -> FetchResponse:
        """The answer to a client over its quota: no partition. To clients that means, where all were asked for, that
        there is no session; where one goes on, that there is no news."""
        session = self.session
        if session is not None and self._is_full:
            self._sessions.close(session.id)
            session = None
        session_id = session.id if session is not None else NO_SESSION
        return FetchResponse(throttle_time_ms=delay_ms, session_id=session_id, responses=())

    def _count(self) -> None:
        for data, partition in zip(self.read.data, self.read.partitions, strict=True):
            if data is None:
                continue
            traffic = self._metrics[partition.topic if partition is not None else ""]
            traffic.fetch_requests += 1
            if data.error_code:
                traffic.failed_fetches += 1
            elif not self.read.is_follower:
                traffic.bytes_out += len(data.records or b"")


def _by_topic(answers: Iterable[tuple[Wanted, PartitionData]]) -> list[FetchableTopicResponse]:
    topics: list[FetchableTopicResponse] = []
    last: tuple[object, object] | None = None
    partitions: list[PartitionData] = []
    for wanted, data in answers:
        key = wanted.key
        if last != (key.topic, key.topic_id):
            last, partitions = (key.topic, key.topic_id), []
            topics.append(
                FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id, partitions=partitions)
            )
        partitions.append(data)
    return topics
