"""Offsets by time, by epoch, and log starts (checklist lines 42 to 45)."""

from typing import Any

import pytest

from rookery.broker.log.producer_state import NOT_VERIFIED
from rookery.core.errors import ErrorCode
from rookery.core.metadata.records import PartitionChangeRecord
from rookery.core.wire.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from rookery.core.wire.apis.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from rookery.core.wire.batch import HEADER_SIZE, read_header, write_header
from tests.unit.broker.talk import NOW_MS, QuietBroker, Talk, batch_of

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


async def offset(
    talk: Talk, timestamp: int, *, version: int = 10, index: int = 0, epoch: int = -1, **options: int
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    topics = [ListOffsetsTopic(name="orders", partitions=[asked])]
    values = {"replica_id": -1, **options}
    answer = await talk.ask(LIST_OFFSETS, version, ListOffsetsRequest(topics=topics, **values))
    found: ListOffsetsPartitionResponse = answer.topics[0].partitions[0]
    return found


async def five_records(broker: QuietBroker) -> Talk:
    """Offsets 0 to 4, a second apart; the last but one is the newest."""
    await broker.create("orders")
    talk = broker.talk()
    for second in (0, 1, 2, 9, 4):
        await talk.produce("orders", batch_of(b"x", time_ms=NOW_MS + second * 1000))
    return talk


@pytest.mark.row(39)
@pytest.mark.parametrize("version", range(1, 11))
async def test_line_42_latest_and_earliest(broker: QuietBroker, version: int) -> None:
    talk = await five_records(broker)
    broker.partition("orders").log.delete_records(2)
    latest, earliest = [await offset(talk, time, version=version) for time in (LATEST, EARLIEST)]
    assert (latest.offset, latest.error_code) == (5, ErrorCode.NONE)
    assert (earliest.offset, earliest.error_code) == (2, ErrorCode.NONE)


@pytest.mark.row(39)
@pytest.mark.parametrize(
    ("seconds", "found"), [(-5, (0, 0)), (0, (0, 0)), (0.5, (1, 1)), (2, (2, 2)), (3, (3, 9)), (9, (3, 9))]
)
async def test_line_42_the_first_record_not_older_than_a_time(
    broker: QuietBroker, seconds: float, found: tuple[int, int]
) -> None:
    talk = await five_records(broker)
    answer = await offset(talk, NOW_MS + int(seconds * 1000))
    assert (answer.offset, answer.timestamp) == (found[0], NOW_MS + found[1] * 1000)


async def test_line_42_records_that_cannot_be_read_are_an_error_and_the_connection_lives(broker: QuietBroker) -> None:
    talk = await five_records(broker)
    malformed = bytearray(batch_of(b"x" * 30, time_ms=NOW_MS + 20_000))
    malformed[HEADER_SIZE:] = b"\xff" * (len(malformed) - HEADER_SIZE)
    write_header(malformed, read_header(malformed))
    assert (await talk.produce("orders", bytes(malformed))).error_code == ErrorCode.NONE
    for timestamp in (NOW_MS + 15_000, MAX_TIMESTAMP):
        answer = await offset(talk, timestamp)
        assert (answer.error_code, answer.offset) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert (await offset(talk, NOW_MS + 2000)).offset == 2
    assert broker.partition("orders").log.segment_log.damage is None, "the disk is not at fault"


async def test_line_42_no_record_is_that_young(broker: QuietBroker) -> None:
    talk = await five_records(broker)
    answer = await offset(talk, NOW_MS + 10_000)
    assert (answer.error_code, answer.offset, answer.timestamp) == (ErrorCode.NONE, -1, -1)


async def test_line_42_the_newest_record(broker: QuietBroker) -> None:
    talk = await five_records(broker)
    answer = await offset(talk, MAX_TIMESTAMP)
    assert (answer.offset, answer.timestamp) == (3, NOW_MS + 9000)


async def test_line_42_local_and_tiered_logs(broker: QuietBroker) -> None:
    talk = await five_records(broker)
    assert (await offset(talk, EARLIEST_LOCAL)).offset == 0
    tiered = await offset(talk, LATEST_TIERED)
    assert (tiered.error_code, tiered.offset) == (ErrorCode.NONE, -1)


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (PENDING_UPLOAD, 10), (-7, 10)],
)
async def test_line_42_special_times_that_a_version_does_not_have(
    broker: QuietBroker, timestamp: int, version: int
) -> None:
    talk = await five_records(broker)
    assert (await offset(talk, timestamp, version=version)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_line_42_read_committed_sees_the_last_stable_offset(broker: QuietBroker) -> None:
    talk = await five_records(broker)
    batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    broker.partition("orders").append_as_leader(bytearray(batch), 1, NOW_MS, NOT_VERIFIED)
    assert (await offset(talk, LATEST)).offset == 6
    assert (await offset(talk, LATEST, isolation_level=1)).offset == 5


async def test_line_42_asking_twice_is_an_invalid_request(broker: QuietBroker) -> None:
    talk = await five_records(broker)
    asked = [ListOffsetsPartition(partition_index=0, timestamp=LATEST)] * 2
    topics = [ListOffsetsTopic(name="orders", partitions=asked)]
    answer = await talk.ask(LIST_OFFSETS, 10, ListOffsetsRequest(replica_id=-1, topics=topics))
    assert [one.error_code for one in answer.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.invariant("P5")
async def test_line_43_a_new_leader_does_not_report_the_end_before_it_is_committed(broker: QuietBroker) -> None:
    talk = await five_records(broker)
    topic_id = broker.cluster.image.topic_ids["orders"]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(1, 2), isr=(1, 2))])
    await talk.produce("orders", batch_of(b"not committed"))
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, leader=1)])
    assert (await offset(talk, LATEST)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await offset(talk, LATEST, version=4)).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (await offset(talk, EARLIEST)).error_code == ErrorCode.NONE


async def test_line_43_only_the_leader_answers_and_reports_the_epoch(broker: QuietBroker) -> None:
    talk = await five_records(broker)
    topic_id = broker.cluster.image.topic_ids["orders"]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, leader=1)])
    assert (await offset(talk, LATEST)).leader_epoch == 1
    assert (await offset(talk, NOW_MS)).leader_epoch == 0, "the epoch that wrote the record"
    assert (await offset(talk, LATEST, epoch=0)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await offset(talk, LATEST, epoch=2)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await offset(talk, LATEST, index=5)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(1, 2), isr=(2,), leader=2)])
    assert (await offset(talk, LATEST)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def end_of(talk: Talk, epoch: int, *, version: int = 4, current: int = -1) -> tuple[int, int, int]:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    topics = [OffsetForLeaderTopic(topic="orders", partitions=[asked])]
    answer = await talk.ask(OFFSET_FOR_LEADER_EPOCH, version, OffsetForLeaderEpochRequest(topics=topics))
    found = answer.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.invariant("P6")
@pytest.mark.parametrize("version", [2, 3, 4])
async def test_line_44_the_largest_epoch_not_above_the_one_asked_for(
    broker: QuietBroker, version: int
) -> None:
    """Offsets 0 and 1 are of epoch 0, offset 2 is of epoch 3, which leads."""
    await broker.create("orders")
    talk = broker.talk()
    topic_id = broker.cluster.image.topic_ids["orders"]
    await talk.produce("orders", batch_of(b"a", b"b"))
    for _ in range(3):
        broker.cluster.commit([PartitionChangeRecord(topic_id, 0, leader=1)])
    await talk.produce("orders", batch_of(b"c"))
    assert await end_of(talk, 0, version=version) == (0, 0, 2)
    assert await end_of(talk, 3, version=version) == (0, 3, 3)
    assert await end_of(talk, 9, version=version) == (0, -1, -1)
    assert (await end_of(talk, 0, version=version, current=1))[0] == ErrorCode.FENCED_LEADER_EPOCH


async def test_line_45_every_partition_asked_for_is_answered(broker: QuietBroker) -> None:
    talk = await five_records(broker)
    await broker.create("table", cleanup_policy="compact")

    def wanted(name: str, *pairs: tuple[int, int]) -> DeleteRecordsTopic:
        partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in pairs]
        return DeleteRecordsTopic(name=name, partitions=partitions)

    topics = [wanted("orders", (0, 3), (7, 0)), wanted("table", (0, 0)), wanted("nowhere", (0, 0))]
    answer = await talk.ask(DELETE_RECORDS, 2, DeleteRecordsRequest(topics=topics, timeout_ms=1000))
    found = [
        (topic.name, one.partition_index, one.error_code, one.low_watermark)
        for topic in answer.topics
        for one in topic.partitions
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == [
        ("orders", 0, ErrorCode.NONE, 3),
        ("orders", 7, unknown, -1),
        ("table", 0, ErrorCode.POLICY_VIOLATION, -1),
        ("nowhere", 0, unknown, -1),
    ]


@pytest.mark.invariant("P15")
@pytest.mark.parametrize(("offset_asked", "error", "low"), [(-1, 0, 5), (5, 0, 5), (6, 1, -1), (-2, 1, -1)])
async def test_line_45_minus_1_is_the_high_watermark_and_nothing_goes_beyond(
    broker: QuietBroker, offset_asked: int, error: int, low: int
) -> None:
    talk = await five_records(broker)
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset_asked)
    topics = [DeleteRecordsTopic(name="orders", partitions=[wanted])]
    answer = await talk.ask(DELETE_RECORDS, 2, DeleteRecordsRequest(topics=topics, timeout_ms=1000))
    found = answer.topics[0].partitions[0]
    assert (found.error_code, found.low_watermark) == (error, low)


def deletion(*wanted: tuple[int, int], timeout_ms: int = 1000) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in wanted]
    topics = [DeleteRecordsTopic(name="orders", partitions=partitions)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


async def with_follower(broker: QuietBroker) -> Talk:
    """Five records, which broker 2 has as well."""
    talk = await five_records(broker)
    topic_id = broker.cluster.image.topic_ids["orders"]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(1, 2), isr=(1, 2))])
    follower_at(broker, log_start=0)
    return talk


def follower_at(broker: QuietBroker, log_start: int) -> None:
    broker.partition("orders").on_follower_fetch(2, offset=5, log_start=log_start, broker_epoch=-1)


def deleted(talk: Talk) -> list[tuple[int, int]]:
    """What has been answered: error and low watermark of each partition."""
    return [
        (one.error_code, one.low_watermark)
        for answer in talk.receive()
        for topic in answer.topics
        for one in topic.partitions
    ]


@pytest.mark.invariant("P15")
async def test_a_deletion_is_answered_when_all_in_sync_replicas_have_made_it(broker: QuietBroker) -> None:
    talk = await with_follower(broker)
    talk.send(DELETE_RECORDS, 2, deletion((0, 3), (9, 0)))
    assert deleted(talk) == []
    follower_at(broker, log_start=2)
    assert deleted(talk) == [], "a follower that becomes leader would bring offset 2 back"
    follower_at(broker, log_start=4)
    assert deleted(talk) == [(ErrorCode.NONE, 3), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    talk.send(DELETE_RECORDS, 2, deletion((0, 2)))
    assert deleted(talk) == [(ErrorCode.NONE, 3)], "done already"
    talk.send(DELETE_RECORDS, 2, deletion((0, -1)))
    assert deleted(talk) == []
    follower_at(broker, log_start=5)
    assert deleted(talk) == [(ErrorCode.NONE, 5)]


async def test_a_deletion_that_a_follower_does_not_make_in_time(broker: QuietBroker) -> None:
    talk = await with_follower(broker)
    talk.send(DELETE_RECORDS, 2, deletion((0, 3), timeout_ms=700))
    assert deleted(talk) == []
    broker.advance(0.71)
    assert deleted(talk) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
    assert broker.waiters.size("DeleteRecords") == 0


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"isr": (1,)}, (ErrorCode.NONE, 3)),
        ({"leader": 2}, (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)),
    ],
)
async def test_a_deletion_goes_on_when_its_follower_leaves_and_ends_when_it_leads(
    broker: QuietBroker, change: dict[str, Any], answer: tuple[int, int]
) -> None:
    talk = await with_follower(broker)
    talk.send(DELETE_RECORDS, 2, deletion((0, 3)))
    assert deleted(talk) == []
    broker.cluster.commit([PartitionChangeRecord(broker.cluster.image.topic_ids["orders"], 0, **change)])
    assert deleted(talk) == [answer]
