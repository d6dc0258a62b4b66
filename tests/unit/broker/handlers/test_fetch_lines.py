"""What readers rely on (checklist lines 32 to 41, but for sessions)."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from rookery.broker.handlers import fetch_read
from rookery.broker.log.producer_state import NOT_VERIFIED
from rookery.broker.replication.partition import Partition
from rookery.core.errors import ErrorCode
from rookery.core.log import LogCorrupt
from rookery.core.metadata.image import Endpoint
from rookery.core.metadata.records import PartitionChangeRecord, RegisterBrokerRecord
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.records import batches, read_header
from tests.unit.broker.talk import NOW_MS, QuietBroker, Talk, batch_of, fetch_request, produce_request

ALL_VERSIONS = range(4, 17)


async def fill(broker: QuietBroker, topic: str, count: int, *, index: int = 0, size: int = 100) -> None:
    talk = broker.talk()
    for number in range(count):
        answer = await talk.produce(topic, batch_of(b"%d" % number * size), index=index)
        assert answer.error_code == ErrorCode.NONE


def offsets(records: object) -> list[int]:
    assert isinstance(records, bytes | bytearray | memoryview)
    return [header.base_offset for _, header in batches(records)]


@pytest.mark.invariant("S3")
@pytest.mark.parametrize("version", [4, 12, 16])
async def test_damaged_records_are_an_error_and_all_others_are_served(broker: QuietBroker, version: int) -> None:
    await broker.create("orders", 2, segment_bytes=str(1 << 20))
    for index in range(2):
        await fill(broker, "orders", 6, index=index, size=400_000)
    log = broker.partition("orders").log.segment_log
    damaged = log.segments[1]
    assert len(log.segments) > 2
    log.set_damaged(LogCorrupt(damaged.log_path, 0, "a checksum is wrong"))
    talk = broker.talk()
    topic = {"topic_id": broker.partition("orders").topic_id} if version > 12 else {}
    found = [
        await talk.fetch("orders", offset, index=index, version=version, **topic)
        for index, offset in ((0, 0), (0, damaged.base_offset), (0, log.segments[2].base_offset), (1, 2))
    ]
    error = ErrorCode.KAFKA_STORAGE_ERROR
    assert [one.error_code for one in found] == [ErrorCode.NONE, error, ErrorCode.NONE, ErrorCode.NONE]
    assert [bool(one.records) for one in found] == [True, False, True, True]
    assert (await talk.produce("orders", batch_of(b"more"))).error_code == ErrorCode.NONE


# --- 32: the long poll ------------------------------------------------------------------------------------


@pytest.mark.row(85, 86)
async def test_line_32_a_fetch_waits_until_there_is_data(broker: QuietBroker) -> None:
    await broker.create("orders")
    reader, writer = broker.talk(), broker.talk()
    reader.send(FETCH, 12, fetch_request("orders", 0, max_wait_ms=500))
    broker.advance(0.4)
    assert reader.receive() == []
    assert broker.waiters.size("Fetch") == 1
    writer.send(PRODUCE, 9, produce_request("orders", batch_of(b"x")))
    (answer,) = reader.receive()
    assert offsets(answer.responses[0].partitions[0].records) == [0]
    assert (broker.waiters.size("Fetch"), broker.scheduler.timers) == (0, 0)


@pytest.mark.row(86)
async def test_line_32_a_fetch_ends_empty_when_its_time_is_over(broker: QuietBroker) -> None:
    await broker.create("orders")
    reader = broker.talk()
    reader.send(FETCH, 12, fetch_request("orders", 0, max_wait_ms=500))
    broker.advance(0.499)
    assert reader.receive() == []
    broker.advance(0.001)
    (answer,) = reader.receive()
    partition = answer.responses[0].partitions[0]
    assert (partition.error_code, partition.records) == (ErrorCode.NONE, b"")


async def test_line_32_a_fetch_waits_for_as_many_bytes_as_it_asks_for(broker: QuietBroker) -> None:
    await broker.create("orders", partitions=2)
    batch = batch_of(b"x" * 100)
    reader, writer = broker.talk(), broker.talk()
    other = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fetch_request("orders", 0, max_wait_ms=500, min_bytes=2 * len(batch) + 1, others=[other])
    reader.send(FETCH, 12, request)
    for index in (0, 1):
        writer.send(PRODUCE, 9, produce_request("orders", batch, index=index))
        assert reader.receive() == []
    writer.send(PRODUCE, 9, produce_request("orders", batch, index=1))
    (answer,) = reader.receive()
    assert [offsets(partition.records) for partition in answer.responses[0].partitions] == [[0], [0, 1]]


async def test_line_32_bytes_that_are_not_committed_do_not_end_the_wait(broker: QuietBroker) -> None:
    await broker.create("orders")
    topic_id = broker.cluster.image.topic_ids["orders"]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(1, 2), isr=(1, 2))])
    reader, follower, writer = broker.talk(), broker.talk(), broker.talk()
    reader.send(FETCH, 12, fetch_request("orders", 0, max_wait_ms=500))
    follower.send(FETCH, 12, fetch_request("orders", 0, max_wait_ms=500, replica_id=2))
    writer.send(PRODUCE, 9, produce_request("orders", batch_of(b"x")))
    (copied,) = follower.receive()
    assert offsets(copied.responses[0].partitions[0].records) == [0], "a follower gets all there is"
    assert reader.receive() == []
    follower.send(FETCH, 12, fetch_request("orders", 1, max_wait_ms=500, replica_id=2))
    (answer,) = reader.receive()
    assert offsets(answer.responses[0].partitions[0].records) == [0]


async def test_line_32_bytes_that_were_there_before_count_when_they_are_committed(broker: QuietBroker) -> None:
    """They were appended before the fetch came, and become readable while it waits."""
    await broker.create("orders")
    topic_id = broker.cluster.image.topic_ids["orders"]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(1, 2), isr=(1, 2))])
    reader, follower, writer = broker.talk(), broker.talk(), broker.talk()
    batch = batch_of(b"x" * 100)
    for _ in range(3):
        writer.send(PRODUCE, 9, produce_request("orders", batch))
    reader.send(FETCH, 12, fetch_request("orders", 0, max_wait_ms=500, min_bytes=3 * len(batch)))
    follower.send(FETCH, 12, fetch_request("orders", 2, replica_id=2))
    assert reader.receive() == [], "two of three are committed"
    follower.send(FETCH, 12, fetch_request("orders", 3, replica_id=2))
    (answer,) = reader.receive()
    assert offsets(answer.responses[0].partitions[0].records) == [0, 1, 2]


async def test_line_32_data_that_goes_on_in_the_next_segment_is_not_waited_for(broker: QuietBroker) -> None:
    await broker.create("orders")
    batch = batch_of(b"x" * 100)
    for number in range(4):
        if number == 1:
            broker.partition("orders").log.roll(NOW_MS)
        await broker.talk().produce("orders", batch)
    answer = await broker.talk().fetch("orders", 0, max_wait_ms=60_000, min_bytes=4 * len(batch))
    assert offsets(answer.records) == [0]
    rest = await broker.talk().fetch("orders", 1, max_wait_ms=60_000, min_bytes=3 * len(batch))
    assert offsets(rest.records) == [1, 2, 3]


async def test_line_32_more_than_an_answer_can_hold_is_not_waited_for(broker: QuietBroker) -> None:
    await broker.create("orders")
    batch = batch_of(b"x" * 100)
    for _ in range(4):
        await broker.talk().produce("orders", batch)
    reader = broker.talk()
    reader.send(FETCH, 12, fetch_request(
        "orders", 0, max_wait_ms=60_000, min_bytes=10 * len(batch), max_bytes=2 * len(batch)
    ))  # fmt: skip
    (answer,) = reader.receive()
    assert offsets(answer.responses[0].partitions[0].records) == [0, 1]


async def test_line_32_a_fetch_that_waits_keeps_no_data(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every waiting client could hold as much memory as its answer may be large."""
    await broker.create("orders")
    batch = batch_of(b"x" * 100)
    reads: list[fetch_read.FetchRead] = []
    read = fetch_read.FetchRead.read

    def remembered(self: fetch_read.FetchRead, first: int = 0) -> None:
        reads.append(self)
        read(self, first)

    monkeypatch.setattr(fetch_read.FetchRead, "read", remembered)
    reader, writer = broker.talk(), broker.talk()
    writer.send(PRODUCE, 9, produce_request("orders", batch))
    reader.send(FETCH, 12, fetch_request("orders", 0, max_wait_ms=500, min_bytes=1000))
    assert (len(reads), reads[0].data) == (1, [])
    broker.advance(0.5)
    (answer,) = reader.receive()
    assert offsets(answer.responses[0].partitions[0].records) == [0]


async def test_line_32_an_error_in_any_partition_is_answered_at_once(broker: QuietBroker) -> None:
    await broker.create("orders")
    reader = broker.talk()
    missing = FetchPartition(partition=9, fetch_offset=0, partition_max_bytes=100)
    reader.send(FETCH, 12, fetch_request("orders", 0, max_wait_ms=500, others=[missing]))
    (answer,) = reader.receive()
    codes = [partition.error_code for partition in answer.responses[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 1), (-1, 1), (500, 0), (500, -1)])
async def test_line_32_who_does_not_want_to_wait_does_not(
    broker: QuietBroker, max_wait_ms: int, min_bytes: int
) -> None:
    await broker.create("orders")
    reader = broker.talk()
    reader.send(FETCH, 12, fetch_request("orders", 0, max_wait_ms=max_wait_ms, min_bytes=min_bytes))
    assert len(reader.receive()) == 1


@pytest.mark.parametrize(
    ("version", "epoch", "told"),
    [
        (10, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (12, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (12, -1, ErrorCode.NONE),  # it may go on here: this broker follows now
    ],
)
async def test_line_32_a_waiting_fetch_learns_of_a_lost_leadership(
    broker: QuietBroker, version: int, epoch: int, told: ErrorCode
) -> None:
    await broker.create("orders")
    reader = broker.talk()
    reader.send(FETCH, version, fetch_request("orders", 0, max_wait_ms=500, current_leader_epoch=epoch))
    topic_id = broker.cluster.image.topic_ids["orders"]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(1, 2), isr=(2,), leader=2)])
    (answer,) = reader.receive()
    assert answer.responses[0].partitions[0].error_code == told


async def test_waiting_fetches_are_woken_once_per_pass(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create("orders")
    reader, writer = broker.talk(), broker.talk()
    batch = batch_of(b"x")
    reader.send(FETCH, 12, fetch_request("orders", 0, max_wait_ms=500, min_bytes=1 << 20))
    looks = 0
    original = fetch_read.FetchRead.ends

    def counting(self: fetch_read.FetchRead, partitions: Sequence[Partition]) -> list[int]:
        nonlocal looks
        looks += 1
        return original(self, partitions)

    monkeypatch.setattr(fetch_read.FetchRead, "ends", counting)
    for _ in range(50):
        writer.send(PRODUCE, 9, produce_request("orders", batch))
    broker.scheduler.run()
    assert looks == 1


# --- 33, 34: sizes and alignment --------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_line_33_the_first_batch_comes_whole_however_large(broker: QuietBroker, version: int) -> None:
    await broker.create("orders")
    await fill(broker, "orders", 3, size=1000)
    options = {"topic_id": broker.cluster.image.topic_ids["orders"]} if version >= 13 else {}
    read = await broker.talk().fetch(
        "orders", 1, max_bytes=1, partition_max_bytes=1, version=version, **options
    )
    assert offsets(read.records) == [1]


async def test_line_33_only_the_first_batch_may_exceed_the_limit(broker: QuietBroker) -> None:
    await broker.create("orders", partitions=2)
    await fill(broker, "orders", 2, index=0, size=1000)
    await fill(broker, "orders", 2, index=1, size=1000)
    other = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1)
    request = fetch_request("orders", 0, partition_max_bytes=1, others=[other])
    answer: FetchResponse = await broker.talk().ask(FETCH, 12, request)
    found = [offsets(partition.records) for partition in answer.responses[0].partitions]
    assert sorted(found) == [[], [0]]


async def test_line_34_reading_starts_with_the_batch_that_holds_the_offset(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    await talk.produce("orders", batch_of(b"a", b"b", b"c"))
    await talk.produce("orders", batch_of(b"d", b"e"))
    assert offsets((await talk.fetch("orders", 1)).records) == [0, 3]
    assert offsets((await talk.fetch("orders", 4)).records) == [3]


@pytest.mark.parametrize("version", [4, 11, 12])
async def test_line_34_no_records_are_zero_bytes_rather_than_null(broker: QuietBroker, version: int) -> None:
    await broker.create("orders")
    assert (await broker.talk().fetch("orders", 0, version=version)).records == b""


async def test_line_34_batches_are_never_cut(broker: QuietBroker) -> None:
    await broker.create("orders")
    await fill(broker, "orders", 10, size=200)
    talk = broker.talk()
    seen: list[int] = []
    while len(seen) < 10:
        read = await talk.fetch("orders", len(seen), partition_max_bytes=700)
        seen += offsets(read.records)  # raises where a batch is cut
    assert seen == list(range(10))


# --- 35: bounds -------------------------------------------------------------------------------------------


async def test_line_35_offsets_outside_of_the_log_are_out_of_range(broker: QuietBroker) -> None:
    await broker.create("orders")
    await fill(broker, "orders", 3)
    broker.partition("orders").log.delete_records(2)
    talk = broker.talk()
    for offset, error in {0: 1, 1: 1, 2: 0, 3: 0, 4: 1, -1: 1}.items():
        assert (await talk.fetch("orders", offset)).error_code == error, offset
    assert (await talk.fetch("orders", 3)).records == b""


@pytest.mark.invariant("P14")
async def test_line_35_consumers_read_to_the_high_watermark_only(broker: QuietBroker) -> None:
    await broker.create("orders")
    topic_id = broker.cluster.image.topic_ids["orders"]
    await fill(broker, "orders", 1)
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(1, 2), isr=(1, 2))])
    await fill(broker, "orders", 1)
    read = await broker.talk().fetch("orders", 0)
    assert (offsets(read.records), read.high_watermark) == ([0], 1)
    beyond = await broker.talk().fetch("orders", 2)
    assert (beyond.error_code, beyond.records) == (ErrorCode.NONE, b"")


# --- 36: fairness -----------------------------------------------------------------------------------------


async def test_line_36_a_busy_partition_does_not_starve_the_others(broker: QuietBroker) -> None:
    await broker.create("orders", partitions=4)
    for index in range(4):
        await fill(broker, "orders", 3, index=index, size=500)
    talk = broker.talk()
    first_served = set()
    for _ in range(4):
        rest = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in range(1, 4)]
        request = fetch_request("orders", 0, max_bytes=1, partition_max_bytes=1, others=rest)
        answer: FetchResponse = await talk.ask(FETCH, 12, request)
        partitions = answer.responses[0].partitions
        assert [one.partition_index for one in partitions] == [0, 1, 2, 3]
        first_served |= {one.partition_index for one in partitions if one.records}
    assert first_served == {0, 1, 2, 3}


# --- 38, 39: epochs and ids -------------------------------------------------------------------------------


async def test_line_38_the_leader_epoch_is_checked_if_the_client_says_one(broker: QuietBroker) -> None:
    await broker.create("orders")
    topic_id = broker.cluster.image.topic_ids["orders"]
    for _ in range(2):
        broker.cluster.commit([PartitionChangeRecord(topic_id, 0, leader=1)])
    assert broker.partition("orders").state.leader_epoch == 2
    talk = broker.talk()
    for epoch, error in {-1: 0, 2: 0, 1: 74, 0: 74, 3: 75}.items():
        assert (await talk.fetch("orders", 0, current_leader_epoch=epoch)).error_code == error, epoch


@pytest.mark.invariant("P6")
async def test_line_38_a_reader_whose_history_differs_learns_where(broker: QuietBroker) -> None:
    await broker.create("orders")
    topic_id = broker.cluster.image.topic_ids["orders"]
    await fill(broker, "orders", 2)
    for _ in range(3):
        broker.cluster.commit([PartitionChangeRecord(topic_id, 0, leader=1)])
    await fill(broker, "orders", 1)  # offsets 0 and 1 are from epoch 0, 2 is from epoch 3
    talk = broker.talk()
    read = await talk.fetch("orders", 5, last_fetched_epoch=1)
    assert read.diverging_epoch is not None
    assert (read.diverging_epoch.epoch, read.diverging_epoch.end_offset) == (0, 2)
    assert (read.error_code, read.records) == (ErrorCode.NONE, b"")
    assert (await talk.fetch("orders", 2, last_fetched_epoch=0)).diverging_epoch is None


async def test_line_39_unknown_topic_ids_are_errors_of_their_partitions(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    good = broker.cluster.image.topic_ids["orders"]
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    topics = [FetchTopic(topic_id=topic_id, partitions=[partition]) for topic_id in (good, UUID(int=77))]
    answer = await talk.ask(FETCH, 13, FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics))
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.responses] == [
        (good, ErrorCode.NONE),
        (UUID(int=77), ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert talk.is_open


async def test_line_39_a_partition_of_another_topic_id_is_inconsistent(broker: QuietBroker) -> None:
    """The image has moved on to a new topic of the same name, the replica here is still the old one's."""
    await broker.create("orders")
    old = broker.partition("orders")
    newer = UUID(int=5)
    broker.partitions._by_id.pop((old.topic_id, 0))
    old.topic_id = newer
    topic_id = broker.cluster.image.topic_ids["orders"]
    read = await broker.talk().fetch("", 0, version=13, topic_id=topic_id)
    assert read.error_code == ErrorCode.INCONSISTENT_TOPIC_ID


async def test_a_wrong_broker_names_the_right_one(broker: QuietBroker) -> None:
    await broker.create("orders")
    endpoint = Endpoint("PLAINTEXT", "two.example.com", 9093, "PLAINTEXT")
    topic_id = broker.cluster.image.topic_ids["orders"]
    broker.cluster.commit([RegisterBrokerRecord(2, UUID(int=2), (endpoint,), fenced=False)])
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(2,), isr=(2,), leader=2)])
    request = fetch_request("", 0, topic_id=topic_id)
    answer = await broker.talk().ask(FETCH, 16, request)
    partition = answer.responses[0].partitions[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 1)
    assert [(end.node_id, end.host, end.port) for end in answer.node_endpoints] == [(2, "two.example.com", 9093)]


# --- 40, 41: transactions and fields ----------------------------------------------------------------------


async def transactional(broker: QuietBroker, talk: Talk, producer_id: int, value: bytes) -> int:
    """Write a batch of an open transaction, as the log gets it once the coordinator was asked."""
    batch = bytearray(
        batch_of(value, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    )
    return broker.partition("orders").append_as_leader(batch, 1, broker.time.wall_ms(), NOT_VERIFIED).base_offset


async def end(broker: QuietBroker, talk: Talk, producer_id: int, commit: bool) -> None:
    """End the transaction; the batch behind the marker takes the high watermark past it."""
    now = broker.time.wall_ms()
    marker = build_marker(EndMarker(commit, 0), producer_id=producer_id, producer_epoch=0, timestamp=now)
    broker.partition("orders").log.append_own(marker, 0, broker.time.wall_ms())
    await talk.produce("orders", batch_of(b"behind"))


@pytest.mark.row(135)
@pytest.mark.invariant("P14", "T9")
async def test_line_40_read_committed_ends_before_open_transactions(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    await talk.produce("orders", batch_of(b"plain"))
    await transactional(broker, talk, 7, b"open")
    await talk.produce("orders", batch_of(b"plain"))
    everything = await talk.fetch("orders", 0)
    assert offsets(everything.records) == [0, 1, 2]
    assert (everything.last_stable_offset, everything.aborted_transactions) == (1, None)
    committed = await talk.fetch("orders", 0, isolation_level=1)
    assert (offsets(committed.records), committed.high_watermark) == ([0], 3)
    assert committed.aborted_transactions == []


@pytest.mark.parametrize(("commit", "aborted"), [(True, []), (False, [(7, 1)])])
async def test_line_40_aborted_transactions_are_listed(
    broker: QuietBroker, commit: bool, aborted: list[tuple[int, int]]
) -> None:
    await broker.create("orders")
    talk = broker.talk()
    await talk.produce("orders", batch_of(b"plain"))
    await transactional(broker, talk, 7, b"decided")
    await end(broker, talk, 7, commit)
    read = await talk.fetch("orders", 0, isolation_level=1)
    assert offsets(read.records) == [0, 1, 2, 3]
    assert read.last_stable_offset == 4
    assert [(one.producer_id, one.first_offset) for one in read.aborted_transactions or ()] == aborted
    before = await talk.fetch("orders", 0, isolation_level=1, partition_max_bytes=1)
    assert (offsets(before.records), list(before.aborted_transactions or ())) == ([0], [])


async def test_line_41_the_answer_reports_the_bounds_of_the_log(broker: QuietBroker) -> None:
    await broker.create("orders")
    await fill(broker, "orders", 5)
    broker.partition("orders").log.delete_records(2)
    read = await broker.talk().fetch("orders", 3)
    assert (read.high_watermark, read.last_stable_offset, read.log_start_offset) == (5, 5, 2)
    assert read.preferred_read_replica == -1
    header = read_header(read.records or b"")
    assert (header.base_offset, header.partition_leader_epoch) == (3, 0)


async def test_answers_are_limited_whatever_a_client_allows(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_read, "RESPONSE_BYTES_MAX", 500)
    await broker.create("orders")
    await fill(broker, "orders", 10, size=200)
    read = await broker.talk().fetch("orders", 0, max_bytes=2**31 - 1, partition_max_bytes=2**31 - 1)
    assert len(offsets(read.records)) == 1
