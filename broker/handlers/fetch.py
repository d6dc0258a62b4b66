"""Fetch (1): read batches from partitions, as a consumer or as a follower.

A fetch that finds fewer than min_bytes is parked, with offsets and no data, until enough is there,
something goes wrong in one of its partitions, or max_wait_ms is over; then it is read once more and
answered. The first batch of an answer comes whole however large it is, so that every consumer gets on.
Partitions are read in turn from another place each time (in a session: those that had data go to the end),
so that no busy partition starves the others.
"""

from typing import Any

from rookery.broker.handlers.authorize import CLUSTER_ACTION
from rookery.broker.handlers.fetch_answer import DelayedFetch, Fetch
from rookery.broker.handlers.fetch_read import FetchRead, ProposeIsr, replica_of
from rookery.broker.handlers.fetch_rest import PartitionsAtRest
from rookery.broker.handlers.fetch_session import FIRST_EPOCH, NO_SESSION_EPOCH, Sessions, wanted_of
from rookery.broker.handlers.locate import Locator
from rookery.broker.handlers.preferred_replica import PreferredReplica
from rookery.broker.quotas.charges import FetchAccount
from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.quotas.replication import ReplicationQuota
from rookery.broker.replication.partition import SINGLE_BROKER, BrokerFacts, Partition
from rookery.broker.replication.waiters import Waiters
from rookery.broker.server.client import Call
from rookery.broker.server.pending import Pending
from rookery.broker.server.request_metrics import TopicMetrics
from rookery.core.clock import Clock
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.wire.apis.fetch import (
    FETCH,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from rookery.core.wire.served import Served

Outcome = FetchResponse | Pending[Any]


class FetchHandler:
    served = Served(FETCH, 4, 18)

    def __init__(
        self,
        locator: Locator,
        waiters: Waiters[Partition],
        sessions: Sessions,
        clock: Clock,
        metrics: TopicMetrics,
        quota: ReplicationQuota,
        client_quotas: ClientQuotas,
        propose: ProposeIsr,
        preferred: PreferredReplica | None = None,
        brokers: BrokerFacts = SINGLE_BROKER,
    ) -> None:
        """`quota` limits followers that catch up; `propose` asks for an ISR with one that has caught up; `preferred`
        sends consumers to replicas closer to them."""
        self._preferred = preferred
        self._brokers = brokers
        self._propose = propose
        self._locator = locator
        self._quota = quota
        self._client_quotas = client_quotas
        self._waiters = waiters
        self._sessions = sessions
        self._clock = clock
        self._metrics = metrics
        self._turn = 0

    def handle(self, request: FetchRequest, call: Call) -> Outcome:
        if (
            call.client.access.restricted
            and (request.replica_state is not None or request.replica_id >= 0)
            and replica_of(request)[0] >= 0
            and not call.access.cluster(CLUSTER_ACTION)
        ):
            return _denied(request, call)
        account = self._account(request, call) if self._client_quotas.limited else None
        try:
            fetch = self._fetch(request, call, account)
        except KafkaError as error:
            call.error(error.code)
            return FetchResponse(error_code=error.code, responses=())
        as_of = self._waiters.changes
        fetch.read.read(self._next_first(fetch))
        read = fetch.read
        if (
            read.answer_now
            or read.bytes >= read.bytes_min
            or request.max_wait_ms <= 0
            or not (fetch.wanted or fetch.session)
        ):
            return fetch.response()
        return self._park(fetch, request, as_of)

    def _account(self, request: FetchRequest, call: Call) -> FetchAccount | None:
        """Followers are not clients."""
        if replica_of(request)[0] >= 0:
            return None
        account = FetchAccount(self._client_quotas, call.who, self._clock.monotonic)
        account.cap(request)
        return account

    def _fetch(self, request: FetchRequest, call: Call, account: FetchAccount | None) -> Fetch:
        """The partitions to read: those of the request, or of the session it continues."""
        session, is_full, owner = None, True, call.client.principal.name
        if request.session_epoch == NO_SESSION_EPOCH:
            self._sessions.close(request.session_id, owner)
        elif request.session_epoch == FIRST_EPOCH:
            is_follower = replica_of(request)[0] >= 0
            now = self._clock.monotonic()
            session = self._sessions.open(request, call.version, is_follower=is_follower, now=now, owner=owner)
            if session is not None and is_follower and request.min_bytes <= 1:
                session.rest = PartitionsAtRest(session, *replica_of(request), self._waiters, self._brokers)
        else:
            session = self._sessions.resume(request, call.version, self._clock.monotonic(), owner)
            is_full = False
            if not session.wanted:
                self._sessions.close(session.id, owner)
                session = None
            elif session.rest is not None:
                session.rest.on_fetch(*replica_of(request), min_bytes=request.min_bytes)
        wanted = list(wanted_of(request)) if session is None else list(session.active.values())
        read = FetchRead(
            self._locator, request, call, wanted, self._quota, self._propose, self._preferred,
            in_session=session is not None, news_only=not is_full,
        )  # fmt: skip
        return Fetch(read, wanted, session, is_full, self._metrics, self._sessions, account)

    def _next_first(self, fetch: Fetch) -> int:
        if fetch.session is not None or len(fetch.wanted) < 2:
            return 0
        self._turn += 1
        return self._turn % len(fetch.wanted)

    def _park(self, fetch: Fetch, request: FetchRequest, as_of: int) -> Outcome:
        pending: Pending[Any] = Pending()
        rest = fetch.session.rest if fetch.session is not None else None
        if rest is not None and rest.rest_ended:
            fetch.read_again()
            return fetch.response()
        fetch.wait()
        delayed = DelayedFetch(fetch, pending)
        waits_for = fetch.read.waits_for
        parked = self._waiters.park(
            delayed, delayed.partitions, request.max_wait_ms / 1000, as_of=as_of, waits_for=waits_for
        )
        if parked is not None:
            pending.on_abandon = lambda: self._waiters.forget(parked)
            if rest is not None:
                rest.waiting = (delayed, parked)
            if fetch.read.is_follower:
                # a follower that sends more has partitions to add: they must not wait for the others' data
                pending.on_hurry = lambda: self._waiters.expire(parked)
        return pending


def _denied(request: FetchRequest, call: Call) -> FetchResponse:
    """The answer to a client that may not fetch as a follower. What it claims to have is ignored. One that continues a
    session has to begin a new one, and then every partition is refused."""
    if request.session_epoch not in (FIRST_EPOCH, NO_SESSION_EPOCH):
        call.error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=())
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    call.error(code)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=each.partition, error_code=code, high_watermark=-1, records=b"")
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
