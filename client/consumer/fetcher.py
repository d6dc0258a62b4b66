"""The tasks that fetch: one for each node that leads some partition, each with a fetch session and its own pace."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from rookery.client.consumer.fetches import Fetches, Outcome
from rookery.client.consumer.metadata import UNREACHABLE, Metadata
from rookery.client.consumer.partition import Partition
from rookery.client.consumer.session import FetchSession, Wanted
from rookery.client.consumer.signal import Signal
from rookery.client.consumer.stalls import AFTER_S, Stalls, doing
from rookery.core.errors import KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.net.fetch_session import SESSION_LOST, SessionRequest
from rookery.core.net.peers import Peers
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.fetch import FETCH, FetchRequest, FetchResponse, PartitionData

log = get_logger("client.consumer")

VERSION_MAX = 16
"""Later versions are for followers."""
SILENT_S = 2.0
"""An answer that is later than this raises the doubt whether the node still leads."""
CLOSE_S = 1.0
LOOK_S = 1.0
STALL_HINT = "explain() and health() of the consumer, and `rookery doctor`, say more"


@dataclass(slots=True)
class FetchSettings:
    min_bytes: int
    max_wait_s: float
    timeout_s: float
    rack: str
    metadata_max_age_s: float
    backoff: BackoffSettings


class Fetcher:
    """Keeps the buffers of `fetches` filled. `notify` whenever there may be something new to fetch."""

    def __init__(
        self,
        fetches: Fetches,
        metadata: Metadata,
        peers: Peers,
        settings: FetchSettings,
        rng: Random,
        on_data: Callable[[], None],
        on_out_of_range: Callable[[Partition], None],
        on_unvalidated: Callable[[], None],
    ) -> None:
        self._fetches = fetches
        self._metadata = metadata
        self._peers = peers
        self._settings = settings
        self._rng = rng
        self._on_data = on_data
        self._on_out_of_range = on_out_of_range
        self._on_unvalidated = on_unvalidated
        self._changed = Signal()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._sessions: dict[int, FetchSession] = {}
        self._note_at: dict[int, float] = {}
        self.stalls = Stalls(settings.max_wait_s + AFTER_S)
        self.requests = 0
        self.bytes = 0

    def notify(self) -> None:
        self._changed.notify()

    async def run(self) -> None:
        """Until cancelled: a task for every node that is needed."""
        try:
            while True:
                for node in self._fetches.nodes(self._metadata.leader, self._now()):
                    task = self._tasks.get(node)
                    if task is None or task.done():
                        if task is not None:
                            task.result()
                        self._tasks[node] = asyncio.create_task(
                            self._fetch_from(node), name=f"fetch from {node}"
                        )
                await self._changed.wait(LOOK_S)
                self._look_for_stalls()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _look_for_stalls(self) -> None:
        now, full = self._now(), self._fetches.buffered >= self._fetches.limits.bytes_max
        begun, over = self.stalls.look({} if full else self._fetches.partitions, now)  # full: the user takes nothing
        for tp in begun:
            has_leader = self._metadata.leader(tp) is not None
            log.warning(
                "partition.stalled",
                partition=str(tp),
                for_s=round(now - self.stalls.since[tp]),
                doing=doing(self._fetches.partitions[tp], has_leader=has_leader),
                hint=STALL_HINT,
            )
        for tp in over:
            log.info("partition.goes_on", partition=str(tp))

    async def end_sessions(self) -> None:
        """Let the nodes forget the sessions; what does not work out at once is left to their cache."""
        ends = [
            self._end(node, request)
            for node, session in self._sessions.items()
            if (request := session.last_request()) is not None
        ]
        await asyncio.gather(*ends, return_exceptions=True)

    async def _end(self, node_id: int, part: SessionRequest) -> None:
        node = self._metadata.node(node_id)
        if node is not None:
            request = self._request(part, 0, 1)
            await self._peers.ask(node.endpoint, FETCH, request, timeout_s=CLOSE_S, at_most=VERSION_MAX)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    # --- one node -------------------------------------------------------------------------------------------

    async def _fetch_from(self, node_id: int) -> None:
        session = self._sessions.setdefault(node_id, FetchSession())
        backoff = Backoff(self._settings.backoff, self._rng)
        pace_s = self._settings.max_wait_s
        while True:
            now = self._now()
            if node_id not in self._fetches.nodes(self._metadata.leader, now):
                return
            unvalidated = self._fetches.unvalidated
            wanted, waiting = self._fetches.plan(node_id, self._metadata.leader, now)
            if self._fetches.unvalidated > unvalidated:  # once for each: their task has pauses of its own
                self._on_unvalidated()
            node = self._metadata.node(node_id)
            if not wanted or node is None:
                await self._changed.wait(pace_s)
                continue
            # While a partition waits for room, the others are not waited for at the node: room may come any moment.
            wait_s = 0.0 if waiting else self._settings.max_wait_s
            before = {tp: self._fetches.partitions[tp].incarnation for tp in wanted}
            request = self._request(
                session.next_request(wanted), wait_s, self._fetches.share(len(self._tasks))
            )
            try:
                answer = await self._ask(node.endpoint, request, wait_s)
            except (KafkaError, *UNREACHABLE) as error:
                session.reset()
                self._metadata.request()
                log.debug("fetch.failed", node=node_id, error=str(error))
                await self._changed.wait(backoff.failed())
                continue
            got = self._take(session, wanted, before, answer, node_id)
            if answer.error_code and answer.error_code not in SESSION_LOST:
                log.debug("fetch.failed", node=node_id, code=answer.error_code)
                await self._changed.wait(backoff.failed())
                continue
            backoff.succeeded()
            if waiting and not got:
                await self._changed.wait(pace_s)

    async def _ask(self, endpoint: tuple[str, int], request: FetchRequest, wait_s: float) -> FetchResponse:
        """Ask, and doubt the leader while the answer is late: a node that stands still says nothing itself."""
        loop = asyncio.get_running_loop()
        doubt = loop.call_later(wait_s + SILENT_S, self._doubt, wait_s)
        self.requests += 1
        try:
            return await self._peers.ask(
                endpoint, FETCH, request, timeout_s=self._settings.timeout_s + wait_s, at_most=VERSION_MAX
            )
        finally:
            doubt.cancel()

    def _doubt(self, wait_s: float) -> None:
        self._metadata.request()

    def _request(self, part: SessionRequest, wait_s: float, bytes_max: int) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=int(wait_s * 1000),
            min_bytes=self._settings.min_bytes if wait_s else 0,
            max_bytes=bytes_max,
            isolation_level=int(self._fetches.limits.read_committed),
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
            rack_id=self._settings.rack,
        )

    def _take(
        self,
        session: FetchSession,
        wanted: dict[TopicPartition, Wanted],
        before: dict[TopicPartition, int],
        answer: FetchResponse,
        node: int,
    ) -> bool:
        """Whether records came."""
        if not session.answered(answer.error_code, answer.session_id):
            return False
        names = {each.topic_id: tp.topic for tp, each in wanted.items()}
        got = False
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                tp = TopicPartition(name, data.partition_index)
                if tp not in wanted:
                    continue
                if data.records:
                    got = True
                    self.bytes += len(data.records)
                self._take_partition(tp, wanted[tp], before[tp], data, node)
        if self._now() >= self._note_at.get(node, 0.0):
            self._note_ends(wanted, node)
        if got:
            self._on_data()
        return got

    def _note_ends(self, wanted: dict[TopicPartition, Wanted], node: int) -> None:
        """The node answered: partitions that are read to their ends have no records to wait for."""
        now, committed = self._now(), self._fetches.limits.read_committed
        self._note_at[node] = now + LOOK_S
        for tp in wanted:
            partition = self._fetches.partitions.get(tp)
            if partition is not None and not partition.failures and partition.fetch_offset >= partition.end(committed):
                self.stalls.nothing_new(partition, now)

    def _take_partition(
        self, tp: TopicPartition, wanted: Wanted, incarnation: int, data: PartitionData, node: int
    ) -> None:
        partition = self._fetches.partitions.get(tp)
        outcome = self._fetches.answered(tp, wanted, incarnation, data, node)
        if partition is None:
            return
        now = self._now()
        if outcome is Outcome.DONE:
            if data.preferred_read_replica >= 0 and data.preferred_read_replica != node:
                partition.preferred = data.preferred_read_replica
                partition.preferred_until = now + self._settings.metadata_max_age_s
                self.notify()
            return
        if outcome is Outcome.FATAL:
            self._on_data()
            return
        leader = data.current_leader
        if leader is not None and self._metadata.new_leader(tp, leader.leader_id, leader.leader_epoch):
            self.notify()
            return
        log.debug("fetch.refused", partition=str(tp), code=data.error_code, node=node)
        if outcome is Outcome.OUT_OF_RANGE:
            self._on_out_of_range(partition)
            return
        if outcome is Outcome.STALE:
            self._metadata.request()
        pause = Backoff(self._settings.backoff, self._rng)
        pause.failures = partition.failures
        partition.not_before = now + pause.failed()
        partition.failures += 1
