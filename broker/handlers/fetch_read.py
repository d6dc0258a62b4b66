"""The reading part of a fetch: once when the request comes, and once more when its wait is over."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rookery.broker.handlers.authorize import READ, topic_denied
from rookery.broker.handlers.fetch_session import TOPIC_IDS_FROM, Wanted
from rookery.broker.handlers.locate import Locator
from rookery.broker.handlers.preferred_replica import PreferredReplica
from rookery.broker.log.partition_log import Isolation
from rookery.broker.quotas.replication import Replica, ReplicationQuota
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.replica_state import LeaderState, Proposal
from rookery.broker.replication.waiters import FOR_APPENDED, FOR_COMMITTED
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.wire.apis.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)


class Quiet(NamedTuple):
    """A partition that had nothing more for a client, and how to check that it still has not."""

    partition: Partition
    leading: LeaderState
    end_offset: int

    def lasts(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether a read would find what the last one found, and nothing but the two bounds that the client
        knows. A leader's view lives as long as its epoch, so the same one means that nothing else has changed."""
        log = self.partition.log
        return (
            self.partition.leading is self.leading
            and log.segment_log.end_offset == self.end_offset
            and log.high_watermark == high_watermark
            and log.segment_log.start_offset == log_start_offset
        )


READ_BIT = 1 << READ
READ_COMMITTED = 1
RACKS_FROM = 11
"""From this version on consumers may read from any replica; older ones know the leader alone."""
LEADER_HINTS_FROM = 12
RESPONSE_BYTES_MAX = 57_671_680
"""No answer is larger than this (but for a single batch that is), whatever the client allows."""
NOTHING_NEW = -1
ProposeIsr = Callable[[Partition, Proposal], None]
"""Asks the controller for the ISR that a partition decided on."""
_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class FetchRead:
    """One fetch of some partitions: reads them in turn until the answer is full."""

    def __init__(
        self,
        locator: Locator,
        request: FetchRequest,
        call: Call,
        wanted: Sequence[Wanted],
        quota: ReplicationQuota,
        propose: ProposeIsr,
        preferred: PreferredReplica | None = None,
        *,
        in_session: bool = False,
        news_only: bool = False,
    ) -> None:
        self._in_session = in_session
        self._news_only = news_only
        self._locator = locator
        self._quota = quota
        self._propose = propose
        self._call = call
        self.wanted = wanted
        """What to read; another time it may be something else."""
        self._bytes_max = min(request.max_bytes, RESPONSE_BYTES_MAX)
        self.bytes_min = min(request.min_bytes, self._bytes_max)
        """Fewer bytes are not worth an answer before the time is up."""
        self._replica, self._replica_epoch = replica_of(request)
        self.is_follower = self._replica >= 0
        self._of_leader = self.is_follower or call.version < RACKS_FROM
        self._rack = "" if self._of_leader else request.rack_id
        self._preferred = preferred
        self.sends_watermarks = preferred is not None and self.is_follower and in_session
        """Consumers may read from followers: these get a new high watermark at once."""
        self._counted = False
        self._isolation = Isolation.HIGH_WATERMARK
        if self.is_follower:
            self._isolation = Isolation.LOG_END
        elif request.isolation_level == READ_COMMITTED:
            self._isolation = Isolation.LAST_STABLE
        self.partitions: list[Partition | None] = []
        """In the order of `wanted`; None where the partition is not here."""
        self.data: list[PartitionData | None] = []
        """The same; None where a session has no news, which a quick check shows without a read."""
        self.endpoints: dict[int, NodeEndpoint] = {}
        self.bytes = 0
        self.answer_now = False
        """Something in it must not wait: an error, a follower's log that has to be cut, or the rest of the data, which
        lies in the next segment and comes with the next fetch."""

    def read(self, first: int = 0) -> None:
        """Read everything; `first` is where to begin, so that each partition is first at some time."""
        wanted = self.wanted
        order = range(len(wanted)) if not first else (*range(first, len(wanted)), *range(first))
        left = self._bytes_max
        found: list[PartitionData | None] = [None] * len(wanted)
        self.partitions = [None] * len(wanted)
        self.bytes = 0
        self.answer_now = False
        access = self._call.client.access
        restricted = access.restricted and not self.is_follower
        version = access.version if restricted and self._in_session else None
        for place in order:
            one = wanted[place]
            if restricted and (version is None or one.allowed_by is not version):
                if one.key.topic and access.knows_topic(READ_BIT, one.key.topic):
                    one.allowed_by = version
                elif not self._may_read(one, version):
                    found[place] = self._refusal(one, topic_denied(READ))
                    continue
            if self._news_only and one.quiet is not None and self._is_quiet(one, one.quiet):
                self.partitions[place] = one.quiet.partition
                continue
            data = found[place] = self._read_one(place, one, left, self.bytes == 0)
            if self.sends_watermarks and data.high_watermark > one.high_watermark:
                self.answer_now = True
            size = len(data.records or b"")
            left -= size
            self.bytes += size
        self._counted = True
        self.data = found

    def _may_read(self, wanted: Wanted, version: object) -> bool:
        """Asked again whenever the ACLs have changed, of all partitions of a session. An unknown topic id is answered
        with its own error."""
        key = wanted.key
        name = key.topic or self._locator.name_of(key.topic_id)
        if name and not self._call.access.topic(READ, name):
            return False
        wanted.allowed_by = version if name else None
        return True

    def _is_quiet(self, wanted: Wanted, quiet: Quiet) -> bool:
        """Most partitions of a session have nothing new most of the time, and this is all that is done for
        them."""
        if self.is_follower and not self._counted and quiet.partition.leading is quiet.leading:
            try:
                self._acknowledged(quiet.partition, wanted.request)
            except KafkaError:
                return False  # the read will say what is wrong
        return quiet.lasts(wanted.high_watermark, wanted.log_start_offset)

    def _read_one(self, place: int, wanted: Wanted, left: int, min_one: bool) -> PartitionData:
        asked, key = wanted.request, wanted.key
        try:
            partition = self.partitions[place] = self._find(wanted)
            self._check(partition, asked.current_leader_epoch)
            closer = self._closer(partition, asked.fetch_offset)
            if closer is not None:
                return self._sent_on(wanted, partition, closer)
            offset, diverging = asked.fetch_offset, None
            left_over = partition.divergence(offset, asked.last_fetched_epoch)
            if left_over is not None:
                self.answer_now = True
                diverging = EpochEndOffset(epoch=left_over[0], end_offset=left_over[1])
                offset = partition.log.end_offset
            elif self.is_follower and not self._counted:
                self._acknowledged(partition, asked)
            log = partition.log
            if self.is_follower and diverging is None and offset == log.segment_log.end_offset:
                return self._nothing_new(wanted, partition)
            bytes_max = min(asked.partition_max_bytes, left)
            is_limited = self.is_follower and self._is_limited(partition)
            if is_limited and self._quota.exceeded:
                bytes_max, min_one = 0, False
            read = partition.read(offset, bytes_max, self._isolation, min_one=min_one)
            if 0 < len(read.data) < bytes_max and read.next_offset < partition.log.bound(self._isolation):
                self.answer_now = True
            if is_limited:
                self._quota.took(len(read.data))
        except KafkaError as error:
            return self._refusal(wanted, error)
        if self._in_session and not self._rack:
            has_all = diverging is None and offset >= partition.log.bound(self._isolation)
            leading = partition.leading if has_all else None
            wanted.quiet = (
                None if leading is None else Quiet(partition, leading, partition.log.segment_log.end_offset)
            )
        aborted = None
        if read.aborted is not None:
            aborted = [
                AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                for one in read.aborted
            ]
        return PartitionData(
            partition_index=key.partition,
            high_watermark=partition.log.high_watermark,
            last_stable_offset=read.last_stable_offset,
            log_start_offset=read.log_start_offset,
            diverging_epoch=diverging,
            aborted_transactions=aborted,
            records=read.data,
        )

    def _nothing_new(self, wanted: Wanted, partition: Partition) -> PartitionData:
        """A follower has all there is: as under acks=all after each batch, so the log is not asked."""
        log, leading = partition.log, partition.leading
        if self._in_session:
            end = log.segment_log.end_offset
            wanted.quiet = None if leading is None else Quiet(partition, leading, end)
        return PartitionData(
            partition_index=wanted.key.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.segment_log.start_offset,
            records=b"",
        )

    def _find(self, wanted: Wanted) -> Partition:
        key = wanted.key
        if self._call.version >= TOPIC_IDS_FROM:
            return self._locator.of(key.topic_id, key.partition)
        return self._locator.named(key.topic, key.partition)

    def _check(self, partition: Partition, leader_epoch: int) -> None:
        """Raise unless this reader may read the partition here."""
        if self._of_leader:
            partition.check_leader(leader_epoch)
        else:
            partition.check_replica(leader_epoch)

    def _closer(self, partition: Partition, offset: int) -> int | None:
        """A replica that is closer to this consumer."""
        if not self._rack or self._preferred is None:
            return None
        return self._preferred.choose(partition, offset, self._rack, self._call.client.listener)

    def _sent_on(self, wanted: Wanted, partition: Partition, closer: int) -> PartitionData:
        """The answer without records that names another replica to read from."""
        self.answer_now = True
        log = partition.log
        return PartitionData(
            partition_index=wanted.key.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.bound(Isolation.LAST_STABLE),
            log_start_offset=log.start_offset,
            preferred_read_replica=closer,
            records=b"",
        )

    def _acknowledged(self, partition: Partition, asked: FetchPartition) -> None:
        """The offset that a follower asks for shows what it has: counted once, when the request comes."""
        proposal = partition.on_follower_fetch(
            self._replica,
            offset=asked.fetch_offset,
            log_start=asked.log_start_offset,
            broker_epoch=self._replica_epoch,
        )
        if proposal is not None:
            self._propose(partition, proposal)

    def _is_limited(self, partition: Partition) -> bool:
        """Whether this follower is one that a move of partitions may slow down."""
        in_sync = self._replica in partition.state.isr
        return self._quota.applies_to(Replica(partition.settings.leader_throttled, partition.index, in_sync))

    @property
    def waits_for(self) -> int:
        """What this reader waits for when there is nothing to read."""
        if self.sends_watermarks:
            return FOR_APPENDED | FOR_COMMITTED
        return FOR_APPENDED if self.is_follower else FOR_COMMITTED

    def bytes_above(self, partition: Partition) -> int:
        """Bytes that are appended, but lie above where this reader's reading ends."""
        return 0 if self.is_follower else partition.log.bytes_above(self._isolation)

    def ends(self, partitions: Sequence[Partition]) -> list[int]:
        """Where this reader's reading of each ends: a follower gets all there is, a consumer what is committed."""
        if not self.is_follower:
            return [partition.log.bound(self._isolation) for partition in partitions]
        if self._quota.exceeded:
            return [
                NOTHING_NEW if self._is_limited(partition) else partition.log.segment_log.end_offset
                for partition in partitions
            ]
        return [partition.log.segment_log.end_offset for partition in partitions]

    def _refusal(self, wanted: Wanted, error: KafkaError) -> PartitionData:
        self.answer_now = True
        wanted.quiet = None
        self._call.error(error.code)
        key = wanted.key
        return PartitionData(
            partition_index=key.partition,
            error_code=error.code,
            high_watermark=-1,
            records=b"",
            current_leader=self._leader_hint(wanted) if error.code in _HINTED else None,
        )

    def _leader_hint(self, wanted: Wanted) -> LeaderIdAndEpoch | None:
        if self._call.version < LEADER_HINTS_FROM:
            return None
        key = wanted.key
        leader = self._locator.leader(key.topic, key.topic_id, key.partition, self._call.client.listener)
        if leader is None:
            return None
        if leader.endpoint is not None:
            _, host, port, _ = leader.endpoint
            self.endpoints[leader.id] = NodeEndpoint(node_id=leader.id, host=host, port=port, rack=leader.rack)
        return LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=leader.epoch)


def replica_of(request: FetchRequest) -> tuple[int, int]:
    """The broker that fetches as a follower and its epoch; -1 for a consumer."""
    state = request.replica_state
    return (request.replica_id, -1) if state is None else (state.replica_id, state.replica_epoch)
