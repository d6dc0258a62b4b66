"""One partition on this broker: its log, its place in the cluster, and how far it is committed.

The image of the cluster says who leads and who is in sync (`apply`); requests append and read here, on the
one loop, so each call sees and leaves a consistent partition. While this broker leads, `leading` knows how
far the followers have come; while it follows, what it fetches from the leader is applied here.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from rookery.broker.log.partition_log import FoundOffset, Isolation, LeaderAppend, PartitionLog, PartitionRead
from rookery.broker.log.producer_state import Guard
from rookery.broker.replication.follower_session import Position
from rookery.broker.replication.replica_state import LeaderState, Proposal, Terms
from rookery.broker.replication.storage import PAGE_CACHE, Storage
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.broker.replication.truncation import check_truncation, truncation_offset
from rookery.broker.replication.waiters import APPENDED, COMMITTED
from rookery.core.errors import (
    FencedLeaderEpochError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    UnknownLeaderEpochError,
)
from rookery.core.event_logging import get_logger
from rookery.core.log.timestamps import LookUp, look_up
from rookery.core.metadata import image
from rookery.core.types import TopicPartition
from rookery.core.wire.batch import Buffer, MutableBuffer

ACKS_ALL = -1
NO_EPOCH = -1
LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_NOBODY = image.Partition(replicas=(), isr=(), leader=-1, leader_epoch=-1)
_log = get_logger("broker.replication")


class BrokerFacts(Protocol):
    """What a leader has to know of itself and of the brokers around it."""

    @property
    def broker_epoch(self) -> int:
        """This broker's own."""

    @property
    def lag_ms_max(self) -> int:
        """replica.lag.time.max.ms"""

    @property
    def session_ms(self) -> int:
        """broker.session.timeout.ms"""

    @property
    def session_lasts(self) -> bool:
        """Whether the controller has answered this broker in that time."""

    def now_ms(self) -> int:
        """Milliseconds of a clock that never jumps."""

    def may_join(self, node_id: int) -> int | None:
        """The registered epoch of a broker that is alive and not stopping; None for every other."""


class SingleBroker:
    """A broker without others: nobody joins."""

    broker_epoch = -1
    lag_ms_max = 30_000
    session_ms = 9_000
    session_lasts = True

    def now_ms(self) -> int:
        return 0

    def may_join(self, node_id: int) -> int | None:
        return None


SINGLE_BROKER = SingleBroker()


class Partition:
    """`wake` is called with the partition whenever something that a request may wait for has changed; `wake_for` where
    that is only APPENDED or COMMITTED."""

    __slots__ = (
        "_brokers", "_leads", "_node_id", "_settings", "_storage", "_synced", "_wake", "_wake_for", "bytes_in", "cut",
        "index", "leading", "log", "offline", "opens_batches", "state", "topic", "topic_id", "topic_partition",
    )  # fmt: skip

    def __init__(
        self,
        topic_id: UUID,
        log: PartitionLog,
        settings: TopicSettings,
        *,
        node_id: int,
        wake: Callable[["Partition"], None],
        brokers: BrokerFacts = SINGLE_BROKER,
        storage: Storage = PAGE_CACHE,
        wake_for: Callable[["Partition", int], None] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.topic_partition: TopicPartition = log.partition
        self.topic, self.index = log.partition
        self.log = log
        self._settings = settings
        self.opens_batches = settings.opens_batches
        self._brokers = brokers
        self._storage = storage
        self._leads = False
        self._synced: asyncio.Future[None] | None = None
        self.state = _NOBODY
        self.leading: LeaderState | None = None
        """The leader's view of its followers; None while another broker leads, or the log is being cut."""
        self.cut: asyncio.Future[None] | None = None
        """Done when the log has been cut; until then nobody may use it, whatever the cluster decides
        meanwhile."""
        self.offline = False
        """The directory that holds the log has failed."""
        self.bytes_in = 0
        """Bytes appended since this object was made: lets a waiting fetch guess without reading."""
        self._node_id = node_id
        self._wake = wake
        self._wake_for = wake_for or (lambda partition, _: wake(partition))
        log.on_start_moved = partial(wake, self)

    @property
    def settings(self) -> TopicSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        """Take over changed options of the topic."""
        self._settings = settings
        self.opens_batches = settings.opens_batches
        leading, brokers = self.leading, self._brokers
        if leading is not None and leading.on_terms(self._terms(), brokers.now_ms(), brokers.may_join):
            self._watermark_moved(leading)

    # --- who leads ---------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.state.leader == self._node_id

    def apply(self, state: image.Partition) -> None:
        """Take over what the cluster has decided."""
        was = self.state
        self.state = state
        self._leads = state.leader == self._node_id
        if not self._leads:
            self.leading = None
        elif self.cut is not None:
            self.leading = None  # leadership begins when it is known where the log ends
        elif self.leading is None or state.leader_epoch != was.leader_epoch:
            self._begin_to_lead(state)
        else:
            moved = self.leading.on_committed(
                isr=state.isr,
                replicas=state.replicas,
                partition_epoch=state.partition_epoch,
                now_ms=self._brokers.now_ms(),
                may_join=self._brokers.may_join,
            )
            if moved:
                self._watermark_moved(self.leading)
        self._wake(self)

    def _begin_to_lead(self, state: image.Partition) -> None:
        """A new epoch begins where the log ends: nothing is cut off, what is there will be committed."""
        self.log.epochs.assign(state.leader_epoch, self.log.end_offset)
        self.log.store.state.drop_guards()
        self.leading = leading = LeaderState.begin(
            me=self._node_id,
            my_broker_epoch=self._brokers.broker_epoch,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
            terms=self._terms(),
            log_end=self.log.end_offset,
            high_watermark=self.log.high_watermark,
            now_ms=self._brokers.now_ms(),
        )
        unsynced = self._unsynced()
        if unsynced is not None:
            leading.log_end = self.log.segment_log.recovery_point
            unsynced.add_done_callback(self._on_durable)
        if leading.on_append(leading.log_end, self._brokers.now_ms(), self._brokers.may_join):
            self._watermark_moved(leading)

    def _unsynced(self) -> "asyncio.Future[None] | None":
        """Where records count only once they are on the device: done when those are that a crash, or haste, left
        behind."""
        log = self.log
        if log.config.sync_before_ack and log.segment_log.recovery_point < log.end_offset:
            return self._storage.appended(log)
        return None

    def _terms(self) -> Terms:
        return Terms(self._settings.insync_replicas_min, self._brokers.lag_ms_max)

    def _watermark_moved(self, leading: LeaderState) -> None:
        self.log.advance_high_watermark(leading.high_watermark)
        self._wake_for(self, COMMITTED)

    def tick(self) -> Proposal | None:
        """Time passed. Returns the ISR to ask the controller for, if followers have been behind for too long."""
        leading = self.leading
        if leading is None:
            return None
        moved, proposal = leading.on_tick(self._brokers.now_ms(), self._brokers.may_join)
        if moved:
            self._watermark_moved(leading)
        elif self.stranded:
            self._wake(self)  # coordinators do not keep their clients any longer
        return proposal

    def pending_proposal(self) -> Proposal | None:
        """The change of the ISR that is under way."""
        return None if self.leading is None else self.leading.pending_proposal()

    def on_refused(self, proposal: Proposal) -> None:
        """The controller did not take a proposal and never will."""
        leading = self.leading
        if leading is not None and leading.on_refused(proposal, self._brokers.now_ms(), self._brokers.may_join):
            self._watermark_moved(leading)

    def on_follower_fetch(
        self, node_id: int, *, offset: int, log_start: int, broker_epoch: int
    ) -> Proposal | None:
        """A follower asks for `offset` as leader epoch and log history allow: all below it is on its disk. Returns the
        ISR to ask the controller for, if the follower may join it now."""
        leading = self.leading
        if leading is None or node_id not in leading.followers:
            raise NotLeaderOrFollowerError(f"{self.topic_partition} has no follower on broker {node_id} here")
        registered = self._brokers.may_join(node_id)
        if registered is not None and broker_epoch < registered:
            raise NotLeaderOrFollowerError(
                f"{self.topic_partition}: broker {node_id} fetches with epoch {broker_epoch}, but is registered "
                f"with {registered}"
            )
        deleted = leading.followers[node_id].log_start != log_start
        moved, proposal = leading.on_follower_fetch(
            node_id,
            offset=offset,
            log_start=log_start,
            broker_epoch=broker_epoch,
            now_ms=self._brokers.now_ms(),
            may_join=self._brokers.may_join,
        )
        if moved:
            self._watermark_moved(leading)
        if deleted:
            self._wake(self)
        return proposal

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise unless this broker leads the partition, in the epoch that the client knows if it says one."""
        self._check_epoch(current_leader_epoch)
        if self.state.leader != self._node_id:
            raise NotLeaderOrFollowerError(f"{self.topic_partition} is led by broker {self.state.leader}")
        self._check_not_cut()
        if self.leading is None:
            raise NotLeaderOrFollowerError(f"{self.topic_partition}: the log could not be truncated, so it cannot lead")

    def check_replica(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise unless this broker's log may be read by a consumer that knows of this epoch: who leads and who follows
        does not matter, both show only what is committed."""
        self._check_epoch(current_leader_epoch)
        if self._node_id not in self.state.replicas:
            raise NotLeaderOrFollowerError(f"{self.topic_partition} has no replica on broker {self._node_id}")
        self._check_not_cut()

    def _check_epoch(self, current_leader_epoch: int) -> None:
        if self.offline:
            raise KafkaStorageError(f"the log directory of {self.topic_partition} is offline")
        state = self.state
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != state.leader_epoch:
            text = f"{self.topic_partition} is at leader epoch {state.leader_epoch}, not {current_leader_epoch}"
            if current_leader_epoch < state.leader_epoch:
                raise FencedLeaderEpochError(text)
            raise UnknownLeaderEpochError(text)

    def _check_not_cut(self) -> None:
        if self.cut is not None:
            raise NotLeaderOrFollowerError(f"{self.topic_partition}: the log is still being cut")

    @property
    def stranded(self) -> bool:
        """Whether neither the controller nor some follower in sync has sent anything for a whole session. This leader
        can commit nothing, and another broker may have replaced it."""
        brokers, leading = self._brokers, self.leading
        if brokers.session_lasts or leading is None:
            return False
        return leading.misses_one(brokers.now_ms(), brokers.session_ms)

    @property
    def _stranded_text(self) -> str:
        return (
            f"{self.topic_partition}: neither the controller nor all in-sync replicas have sent anything for "
            f"{self._brokers.session_ms} ms, so nothing can be committed by broker {self._node_id}"
        )

    def check_in_touch(self) -> None:
        """Raise where a producer that waits for all replicas would wait without success. It looks for another
        leader."""
        if self.stranded:
            raise NotLeaderOrFollowerError(self._stranded_text)

    def check_commits(self) -> None:
        """The same for a coordinator, who goes on when the fault is over."""
        if self.stranded:
            raise RequestTimedOutError(self._stranded_text)

    def followers_with(self, offset: int) -> Iterable[tuple[int, int, int]]:
        """While this broker leads: see LeaderState."""
        return () if self.leading is None else self.leading.followers_with(offset, self._brokers.now_ms())

    # --- writing -----------------------------------------------------------------------------------------

    @property
    def below_min_isr(self) -> bool:
        """Too few replicas are in sync to commit anything."""
        state = self.state
        return len(state.isr) < min(self._settings.insync_replicas_min, len(state.replicas))

    def append_as_leader(
        self, batch: MutableBuffer | None, acks: int, now_ms: int, guard: Guard | None = None
    ) -> LeaderAppend:
        """Append the one batch a producer sent; offsets and epoch are written into it where it lies."""
        if self.leading is None or self.offline:
            self.check_leader()
        if acks == ACKS_ALL:
            if self.below_min_isr:
                raise self._too_few_replicas()
            if not self._brokers.session_lasts:
                self.check_in_touch()
        appended = self.log.append_as_leader(batch, self.state.leader_epoch, now_ms, guard)
        if not appended.duplicate and batch is not None:
            self._appended(len(batch))
        return appended

    def append_own(
        self,
        batch: MutableBuffer,
        leader_epoch: int,
        now_ms: int,
        *,
        transaction_version: int = 0,
        guard: Guard | None = None,
    ) -> LeaderAppend:
        """Append a batch that this broker built, like acks=all, in the epoch in which its writer believes to
        lead: a coordinator that was replaced writes nothing."""
        self.check_leader(leader_epoch)
        self.check_commits()
        if self.below_min_isr:
            raise self._too_few_replicas()
        appended = self.log.append_own(
            batch, leader_epoch, now_ms, transaction_version=transaction_version, guard=guard
        )
        self._appended(len(batch))
        return appended

    def _too_few_replicas(self) -> NotEnoughReplicasError:
        return NotEnoughReplicasError(
            f"{self.topic_partition} has {len(self.state.isr)} in-sync replicas, min.insync.replicas is "
            f"{self.settings.insync_replicas_min}"
        )

    def _appended(self, size: int) -> None:
        """This broker's log has grown."""
        self.bytes_in += size
        log, leading = self.log, self.leading
        durable = self._storage.appended(log)
        if durable is None:
            self._grown(log.segment_log.end_offset)
        else:
            durable.add_done_callback(self._on_durable)
        if leading is not None and leading.followers:
            self._wake_for(self, APPENDED)
        else:
            self._wake(self)

    def _grown(self, log_end: int) -> None:
        """The leader's own log counts up to `log_end`."""
        leading = self.leading
        if leading is None:
            return
        if leading.followers:
            if leading.on_append(log_end, self._brokers.now_ms(), self._brokers.may_join):
                self._watermark_moved(leading)
        else:
            leading.on_append_alone(log_end)
            self.log.advance_high_watermark(log_end)

    def _on_durable(self, synced: "asyncio.Future[None]") -> None:
        """With flush.messages=1 records count once they are on the device; a failure took the directory
        offline."""
        if not synced.cancelled() and synced.exception() is None:
            self._grown(self.log.segment_log.recovery_point)
            self._wake(self)

    def is_acknowledged(self, appended: LeaderAppend, acks: int) -> bool:
        """Whether what was appended can be answered to a producer that asked for `acks`. A retry waits like the
        original."""
        log = self.log
        if acks == ACKS_ALL:
            return log.high_watermark > appended.last_offset
        return acks == 0 or not log.config.sync_before_ack or log.segment_log.recovery_point > appended.last_offset

    def synced(self) -> "asyncio.Future[None] | None":
        """Where a follower may acknowledge only what is on its device: done when all that was fetched is."""
        synced, self._synced = self._synced, None
        return synced

    # --- following ---------------------------------------------------------------------------------------

    @property
    def busy(self) -> "asyncio.Future[None] | None":
        """None, or done when the disk has caught up: before, this replica's position says nothing."""
        return self.cut or self._unsynced()

    def position(self) -> Position:
        """From where this replica fetches: all below is on its disk."""
        log = self.log
        held = log.segment_log
        return Position(held.end_offset, log.epochs.latest_epoch, self.state.leader_epoch, held.start_offset)

    def apply_fetched(
        self, records: Buffer, *, high_watermark: int, leader_log_start: int, now_ms: int
    ) -> None:
        """Append what the leader sent, and learn what it calls committed."""
        if len(records):
            if _base_offset(records) < self.log.end_offset == self.log.start_offset:
                self._begin_cut(self._begin_within(bytes(records), high_watermark, leader_log_start, now_ms))
                return
            self.log.append_as_follower(records, now_ms)
            self.bytes_in += len(records)
            self._synced = self._storage.appended(self.log)
        moved = self.log.advance_high_watermark(high_watermark)
        if leader_log_start > self.log.start_offset:
            self.log.follow_log_start(leader_log_start)
        if moved or len(records):
            self._wake(self)

    async def _begin_within(
        self, records: bytes, high_watermark: int, leader_log_start: int, now_ms: int
    ) -> None:
        """The leader's log starts within a batch, of which it deleted some records: an empty replica takes the whole
        batch, and then starts where the leader does."""
        await self._storage.restart_at(self.log, _base_offset(records))
        self.log.append_as_follower(records, now_ms)
        self.log.advance_high_watermark(high_watermark)
        self.log.follow_log_start(leader_log_start)

    def truncate_to_leader(self, epoch: int, end_offset: int) -> "asyncio.Future[None]":
        """Begin to cut off what the leader, whose history up to `epoch` ends at `end_offset`, does not
        have."""
        log = self.log
        offset = truncation_offset(
            leader_epoch=epoch, leader_end=end_offset, epochs=log.epochs, log_end=log.end_offset
        )
        return self._cut_to(offset)

    def restart_at(self, offset: int) -> "asyncio.Future[None]":
        """The leader's log starts at `offset` and has nothing in common with this one: what lies behind
        goes, and where this log ends before, it begins anew there."""
        if offset < self.log.end_offset:
            return self._cut_to(offset)
        _log.warning(
            "log.restarted", partition=str(self.topic_partition), at=offset, end=self.log.end_offset,
            reason="the leader's log starts later than this one ends",
        )  # fmt: skip
        return self._begin_cut(self._storage.restart_at(self.log, offset))

    def _cut_to(self, offset: int) -> "asyncio.Future[None]":
        log = self.log
        check_truncation(
            offset, log.high_watermark, counted_on=self._counted_on, partition=str(self.topic_partition)
        )
        _log.info(
            "log.truncated", partition=str(self.topic_partition), start=offset, end=log.end_offset,
            leader=self.state.leader, leader_epoch=self.state.leader_epoch,
        )  # fmt: skip
        return self._begin_cut(self._storage.truncate(log, offset))

    @property
    def _counted_on(self) -> bool:
        """Whether the cluster relies on this replica to have all that is committed. One that it does not count on may
        have slept through an unclean election, however long ago: what that took was committed once."""
        state = self.state
        recovering = state.leader_recovery_state is image.LeaderRecoveryState.RECOVERING
        return not recovering and self._node_id in (*state.isr, *state.elr)

    def _begin_cut(self, work: Coroutine[Any, Any, object]) -> "asyncio.Future[None]":
        """The partition owns this work: it goes on also when its caller is gone."""

        async def cut() -> None:
            await work

        self.cut = task = asyncio.get_running_loop().create_task(cut(), name=f"cut {self.topic_partition}")
        task.add_done_callback(self._cut_done)
        return task

    def _cut_done(self, task: "asyncio.Future[None]") -> None:
        self.cut = None
        failed = task.cancelled() or task.exception() is not None
        if self._leads and self.leading is None and not self.offline and not failed:
            self._begin_to_lead(self.state)
        self._wake(self)

    def go_offline(self) -> None:
        """The directory that holds the log has failed."""
        self.offline = True
        self.leading = None
        self._wake(self)

    # --- reading -----------------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one: bool
    ) -> PartitionRead:
        """Whole batches from `offset` as far as the reader may see; only bounds where there is no room."""
        return self.log.read(offset, max_bytes, isolation, min_one=min_one)

    def divergence(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Where the log of a reader, which says its last batch is from `last_fetched_epoch`, left this one:
        (epoch, end offset), or None if it did not."""
        if last_fetched_epoch == NO_EPOCH:
            return None
        epoch, end = self.end_offset_for_epoch(last_fetched_epoch)
        if epoch == NO_EPOCH:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition} knows no leader epoch up to {last_fetched_epoch}, in which offset "
                f"{offset} was said to be"
            )
        return (epoch, end) if epoch < last_fetched_epoch or end < offset else None

    # --- offsets -----------------------------------------------------------------------------------------

    def list_offset(self, timestamp: int, isolation: Isolation, look_up: LookUp = look_up) -> FoundOffset | None:
        """The offset for a timestamp or one of the special ones; None if there is none. `look_up` reads records."""
        log = self.log
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = log.start_offset
            return FoundOffset(start, leader_epoch=log.epochs.epoch_at(start))
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return None
        leading = self.leading
        if leading is not None and not leading.readable_latest and isolation is not Isolation.LOG_END:
            raise OffsetNotAvailableError(
                f"{self.topic_partition}: the new leader has yet to learn that its log is committed up to "
                f"{leading.epoch_start}"
            )
        if timestamp == LATEST:
            return FoundOffset(log.bound(isolation), leader_epoch=self.state.leader_epoch)
        return log.offset_for_timestamp(timestamp, isolation, look_up)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to the one asked for and its end; (-1, -1) if none is known."""
        if leader_epoch == self.state.leader_epoch:
            return leader_epoch, self.log.end_offset
        return self.log.epochs.end_offset_for(leader_epoch, self.log.end_offset)


def _base_offset(records: Buffer) -> int:
    """The offset of the first record of the first batch."""
    return int.from_bytes(records[:8], "big")
