"""A fetch under way: what it answers (all that was asked for, or, within a session, only the news), and its wait for
data."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from rookery.broker.handlers.fetch_read import FetchRead
from rookery.broker.handlers.fetch_rest import LastRead
from rookery.broker.handlers.fetch_session import NO_SESSION, Session, Sessions, Wanted
from rookery.broker.quotas.charges import FetchAccount
from rookery.broker.replication.partition import Partition
from rookery.broker.server.pending import Pending
from rookery.broker.server.request_metrics import TopicMetrics
from rookery.core.metadata import image
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
        session = self.session
        if session is not None and session.rest is not None:
            self.wanted = self.read.wanted = list(session.active.values())
        self.read.read()

    def wait(self) -> None:
        """There is not enough yet: what was found is dropped, and read again when the wait is over."""
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
            # every partition is looked at, also for a full answer: the session remembers what it answered
            news = [answer for answer in answers if answer[0].is_news(answer[1])]
            session.read_last([wanted.key for wanted, data in news if data.records])
            answers = answers if self._is_full else news
            if session.rest is not None:
                session.rest.waiting = None
                session.rest.take(self.wanted)
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
            self._sessions.close(session.id, session.owner)
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


class DelayedFetch:
    """Woken by its partitions. One byte is there as soon as a partition can be read further; where more is
    asked for, the bytes appended behind what was read are a guess that costs nothing, and only a good one causes
    a read."""

    kind = "Fetch"

    def __init__(self, fetch: Fetch, pending: Pending[Any]) -> None:
        self._fetch = fetch
        self._min_bytes = fetch.read.bytes_min
        self._pending = pending
        self._remember()

    def _remember(self) -> None:
        """What was read last, and how far."""
        read = self._fetch.read
        wanted = {
            partition: wanted
            for wanted, partition in zip(self._fetch.wanted, read.partitions, strict=True)
            if partition is not None
        }
        self.partitions = partitions = list(wanted)
        states = [partition.state for partition in partitions]
        bytes_in: Iterable[int] = repeat(0)
        if self._min_bytes > 1:
            bytes_in = [partition.bytes_in - read.bytes_above(partition) for partition in partitions]
        found = zip(wanted.values(), states, read.ends(partitions), bytes_in, strict=False)
        self._places: dict[Partition, LastRead] = dict(zip(partitions, found, strict=True))
        self._had = read.bytes

    def add(self, partition: Partition, place: LastRead) -> None:
        """One more to wait for, which rested when the wait began."""
        self._places[partition] = place

    def try_complete(self, changed: Sequence[Partition]) -> bool:
        read, places = self._fetch.read, self._places
        sends_watermarks = read.sends_watermarks
        moved = False
        for partition, end in zip(changed, read.ends(changed), strict=True):
            wanted, state, until, _ = places[partition]
            if partition.offline or (partition.state is not state and _leader_changed(state, partition.state)):
                return self._answer()
            if sends_watermarks and partition.log.high_watermark > wanted.high_watermark:
                return self._answer()
            if end > until:
                moved = True
        if not moved:
            return False
        if self._min_bytes <= 1:
            return self._answer()
        return self._guess() >= self._min_bytes and self._answer_if_enough()

    def _guess(self) -> int:
        """Bytes there may be now: at least what was found, plus all that was appended behind it."""
        return self._had + sum(partition.bytes_in - place[3] for partition, place in self._places.items())

    def _answer_if_enough(self) -> bool:
        read = self._fetch.read
        self._fetch.read_again()
        if read.bytes >= self._min_bytes or read.answer_now:
            self._pending.complete(self._fetch.response())
            return True
        self._fetch.wait()
        self._remember()
        return False

    def _answer(self) -> bool:
        self._fetch.read_again()
        self._pending.complete(self._fetch.response())
        return True

    def expire(self) -> None:
        self._answer()

    def fail(self, error: Exception) -> None:
        self._pending.fail(error)


def _leader_changed(was: image.Partition, now: image.Partition) -> bool:
    """Whether another broker leads now, or none, or the same one in a new epoch."""
    return now.leader != was.leader or now.leader_epoch != was.leader_epoch
