"""What producers rely on (checklist lines 23 to 31)."""

import threading
from collections.abc import Callable
from struct import pack_into
from uuid import UUID

import pytest
from crc32c import crc32c

from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Endpoint
from rookery.core.metadata.records import PartitionChangeRecord, RegisterBrokerRecord
from rookery.core.wire.apis.fetch import FETCH
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from rookery.core.wire.records import Codec, Record, batches, build_batch, read_header, read_records
from tests.unit.broker.talk import NOW_MS, QuietBroker, Talk, batch_of, fetch_request, produce_request
from tests.unit.broker.waiting import until

ALL_VERSIONS = range(3, 12)


def resealed(batch: bytes, change: Callable[[bytearray], None]) -> bytes:
    """A batch with a change under its checksum, and the checksum made right again."""
    changed = bytearray(batch)
    change(changed)
    pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


def set_attributes(bits: int) -> Callable[[bytearray], None]:
    return lambda batch: pack_into(">h", batch, 21, bits)


# --- 23: acks ---------------------------------------------------------------------------------------------


@pytest.mark.row(10)
async def test_line_23_acks_0_is_never_answered(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    for number in range(3):
        talk.send(PRODUCE, 9, produce_request("orders", batch_of(b"%d" % number), acks=0))
    broker.scheduler.run()
    assert talk.transport.take_frames() == []
    assert talk.is_open
    assert broker.partition("orders").log.end_offset == 3


async def test_line_23_acks_0_that_fails_closes_the_connection(broker: QuietBroker) -> None:
    talk = broker.talk()
    talk.send(PRODUCE, 9, produce_request("nowhere", batch_of(b"x"), acks=0))
    assert talk.transport.take_frames() == []
    assert not talk.is_open


@pytest.mark.parametrize("acks", [2, -2, 99])
async def test_line_23_other_acks_are_refused(broker: QuietBroker, acks: int) -> None:
    await broker.create("orders")
    answer = await broker.talk().produce("orders", batch_of(b"x"), acks=acks)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert broker.partition("orders").log.end_offset == 0


# --- 24: validation ---------------------------------------------------------------------------------------


@pytest.mark.row(34)
@pytest.mark.invariant("S1")
async def test_line_24_a_wrong_checksum_is_a_corrupt_message(broker: QuietBroker) -> None:
    await broker.create("orders")
    batch = bytearray(batch_of(b"x"))
    batch[-1] ^= 1
    assert (await broker.talk().produce("orders", bytes(batch))).error_code == ErrorCode.CORRUPT_MESSAGE
    assert broker.partition("orders").log.end_offset == 0


@pytest.mark.row(35)
@pytest.mark.parametrize(
    ("what", "batch"),
    [
        ("old magic", bytes(bytearray(batch_of(b"x"))[:16] + b"\x01" + batch_of(b"x")[17:])),
        ("no batch", b""),
        ("two batches", batch_of(b"x") + batch_of(b"y")),
        ("count and delta differ", resealed(batch_of(b"x", b"y"), lambda b: pack_into(">i", b, 57, 1))),
        ("control batch", resealed(batch_of(b"x"), set_attributes(0b10_0000))),
        ("negative sequence", batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=-1)),
    ],
)
async def test_line_24_batches_that_may_not_be_sent_are_invalid_records(
    broker: QuietBroker, what: str, batch: bytes
) -> None:
    await broker.create("orders")
    answer = await broker.talk().produce("orders", batch)
    assert answer.error_code == ErrorCode.INVALID_RECORD, what
    assert answer.base_offset == -1
    assert broker.partition("orders").log.end_offset == 0


async def test_line_24_null_records_are_an_invalid_record(broker: QuietBroker) -> None:
    await broker.create("orders")
    answer = await broker.talk().ask(PRODUCE, 11, produce_request("orders", None))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Codec))
async def test_line_24_compacted_topics_need_keys_and_name_the_records_without(
    broker: QuietBroker, codec: Codec
) -> None:
    await broker.create("table", cleanup_policy="compact")
    records = [Record(0, NOW_MS, b"k", b"1"), Record(1, NOW_MS, None, b"2"), Record(2, NOW_MS, None, b"3")]
    talk = broker.talk()
    answer = await talk.produce("table", bytes(build_batch(records, codec=codec)))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
    assert "key" in (answer.record_errors[0].batch_index_error_message or "")
    assert (await talk.produce("table", batch_of(b"x", codec=codec))).error_code == ErrorCode.NONE


async def test_line_24_a_batch_above_the_limit_is_too_large(broker: QuietBroker) -> None:
    await broker.create("small", max_message_bytes="200")
    talk = broker.talk()
    assert (await talk.produce("small", batch_of(b"x" * 300))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await talk.produce("small", batch_of(b"x" * 50))).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("off_ms", "error"), [(3_600_001, 32), (3_600_000, 0), (-1001, 32), (-1000, 0)])
async def test_timestamps_too_far_from_the_clock_are_invalid(
    broker: QuietBroker, off_ms: int, error: int
) -> None:
    await broker.create("orders", message_timestamp_before_max_ms="1000")
    answer = await broker.talk().produce("orders", batch_of(b"x", time_ms=NOW_MS + off_ms))
    assert answer.error_code == error


# --- 25: the answer ---------------------------------------------------------------------------------------


@pytest.mark.row(7)
@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_line_25_the_answer_reports_where_the_batch_went(broker: QuietBroker, version: int) -> None:
    await broker.create("orders")
    talk = broker.talk()
    await talk.produce("orders", batch_of(b"a", b"b"), version=version)
    answer = await talk.produce("orders", batch_of(b"c"), version=version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 2, -1)
    if version >= 5:
        assert answer.log_start_offset == 0


async def test_line_25_log_append_time_is_reported_and_stored(broker: QuietBroker) -> None:
    await broker.create("orders", message_timestamp_type="LogAppendTime")
    talk = broker.talk()
    answer = await talk.produce("orders", batch_of(b"x", time_ms=1))
    assert answer.log_append_time_ms == NOW_MS
    read = await talk.fetch("orders", 0)
    (record,) = read_records(read.records or b"")
    assert record.timestamp == NOW_MS


# --- 26: leadership ---------------------------------------------------------------------------------------


async def lead_elsewhere(broker: QuietBroker, topic: str) -> None:
    """Broker 2, which both listeners reach, takes the partition over."""
    endpoint = Endpoint("PLAINTEXT", "two.example.com", 9093, "PLAINTEXT")
    broker.cluster.commit([RegisterBrokerRecord(2, UUID(int=2), (endpoint,), rack="r2", fenced=False)])
    topic_id = broker.cluster.image.topic_ids[topic]
    change = PartitionChangeRecord(topic_id, 0, replicas=(1, 2), isr=(2,), leader=2)
    broker.cluster.commit([change])


@pytest.mark.row(17)
async def test_line_26_a_wrong_broker_names_the_right_one_from_version_10_on(broker: QuietBroker) -> None:
    await broker.create("orders")
    await lead_elsewhere(broker, "orders")
    talk = broker.talk()
    answer = await talk.ask(PRODUCE, 10, produce_request("orders", batch_of(b"x")))
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 1)
    (end,) = answer.node_endpoints
    assert (end.node_id, end.host, end.port, end.rack) == (2, "two.example.com", 9093, "r2")
    old = await talk.produce("orders", batch_of(b"x"), version=9)
    assert (old.error_code, old.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


async def test_line_26_an_unknown_topic_is_never_created_by_producing(broker: QuietBroker) -> None:
    talk = broker.talk()
    assert (await talk.produce("fresh", batch_of(b"x"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await broker.create("orders")
    answer = await talk.produce("orders", batch_of(b"x"), index=7)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "fresh" not in broker.cluster.image.topic_ids


async def test_clients_do_not_write_to_topics_of_coordinators(broker: QuietBroker) -> None:
    await broker.create("__consumer_offsets")
    answer = await broker.talk().produce("__consumer_offsets", batch_of(b"x"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert broker.partition("__consumer_offsets").log.end_offset == 0


async def test_an_offline_directory_is_a_storage_error_that_old_versions_cannot_say(
    broker: QuietBroker,
) -> None:
    await broker.create("orders")
    broker.partition("orders").go_offline()
    talk = broker.talk()
    assert (await talk.produce("orders", batch_of(b"x"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    old = await talk.produce("orders", batch_of(b"x"), version=3)
    assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- 27: acks=all -----------------------------------------------------------------------------------------


def share(broker: QuietBroker, topic: str, isr: tuple[int, ...]) -> None:
    """Give the partition two replicas, of which `isr` are in sync; this broker goes on leading."""
    topic_id = broker.cluster.image.topic_ids[topic]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(1, 2), isr=isr)])


def follower_fetch(talk: Talk, topic: str, offset: int) -> None:
    """Broker 2 says that it has everything below `offset`."""
    talk.send(FETCH, 12, fetch_request(topic, offset, replica_id=2, max_wait_ms=0))
    talk.receive()


@pytest.mark.invariant("P17")
async def test_line_26_a_disk_that_fails_meanwhile_ends_the_wait(broker: QuietBroker) -> None:
    await broker.create("orders")
    share(broker, "orders", isr=(1, 2))
    talk = broker.talk()
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"x"), acks=-1, timeout_ms=60_000))
    assert talk.receive() == []
    broker.partition("orders").go_offline()
    (answer,) = talk.receive()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.row(13)
@pytest.mark.invariant("P12")
async def test_line_27_too_few_in_sync_replicas_refuse_before_writing(broker: QuietBroker) -> None:
    await broker.create("orders", min_insync_replicas="2")
    share(broker, "orders", isr=(1,))
    talk = broker.talk()
    answer = await talk.produce("orders", batch_of(b"x"), acks=-1)
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert broker.partition("orders").log.end_offset == 0
    assert (await talk.produce("orders", batch_of(b"x"), acks=1)).error_code == ErrorCode.NONE


@pytest.mark.row(12, 140)
async def test_line_27_acks_all_waits_for_all_in_sync_replicas(broker: QuietBroker) -> None:
    await broker.create("orders", min_insync_replicas="2")
    share(broker, "orders", isr=(1, 2))
    talk, follower = broker.talk(), broker.talk()
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"a"), acks=-1))
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"b"), acks=-1))
    assert talk.receive() == []
    assert broker.waiters.size("Produce") == 2
    follower_fetch(follower, "orders", 1)
    (first,) = talk.receive()
    assert first.responses[0].partition_responses[0].base_offset == 0
    follower_fetch(follower, "orders", 2)
    (second,) = talk.receive()
    assert second.responses[0].partition_responses[0].base_offset == 1
    assert broker.waiters.size("Produce") == 0
    assert broker.scheduler.timers == 0


@pytest.mark.invariant("P12")
async def test_line_27_an_isr_that_shrinks_after_the_write_is_reported(broker: QuietBroker) -> None:
    await broker.create("orders", min_insync_replicas="2")
    share(broker, "orders", isr=(1, 2))
    talk, follower = broker.talk(), broker.talk()
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"a"), acks=-1))
    follower.send(FETCH, 12, fetch_request("orders", 1, replica_id=2, max_wait_ms=0))
    share(broker, "orders", isr=(1,))  # in the same pass of the loop, before anybody is woken
    (answer,) = talk.receive()
    code = answer.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.invariant("P3")
async def test_line_27_below_min_insync_replicas_nothing_is_committed(broker: QuietBroker) -> None:
    await broker.create("orders", min_insync_replicas="2")
    share(broker, "orders", isr=(1, 2))
    talk = broker.talk()
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"a"), acks=-1, timeout_ms=1000))
    share(broker, "orders", isr=(1,))
    assert talk.receive() == []
    broker.advance(1.0)
    (answer,) = talk.receive()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_line_27_a_wait_that_takes_too_long_times_out(broker: QuietBroker) -> None:
    await broker.create("orders")
    share(broker, "orders", isr=(1, 2))
    talk = broker.talk()
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"a"), acks=-1, timeout_ms=250))
    broker.advance(0.249)
    assert talk.receive() == []
    broker.advance(0.001)
    (answer,) = talk.receive()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert broker.partition("orders").log.end_offset == 1, "it may still be committed"


async def test_line_26_a_leader_that_is_cut_off_names_nobody(broker: QuietBroker) -> None:
    """It would wait for its followers in vain. It does not know who leads, so the client asks another broker."""
    await broker.create("orders")
    share(broker, "orders", isr=(1, 2))
    broker.strand()
    refused = await broker.talk().produce("orders", batch_of(b"a"), acks=-1, version=12)
    assert (refused.error_code, refused.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    assert broker.partition("orders").log.end_offset == 0


async def test_line_27_losing_the_leadership_ends_the_wait(broker: QuietBroker) -> None:
    await broker.create("orders")
    share(broker, "orders", isr=(1, 2))
    talk = broker.talk()
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"a"), acks=-1))
    await lead_elsewhere(broker, "orders")
    (answer,) = talk.receive()
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == 2


async def test_a_client_that_leaves_takes_its_waits_along(broker: QuietBroker) -> None:
    await broker.create("orders")
    share(broker, "orders", isr=(1, 2))
    talk = broker.talk()
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"a"), acks=-1))
    talk.send(FETCH, 12, fetch_request("orders", 1, max_wait_ms=5000))
    assert (broker.waiters.size("Produce"), broker.waiters.size("Fetch")) == (1, 1)
    talk.connection.connection_lost(None)
    assert (broker.waiters.size("Produce"), broker.waiters.size("Fetch")) == (0, 0)
    assert broker.scheduler.timers == 0


# --- 28 to 31: idempotence --------------------------------------------------------------------------------


def numbered(sequence: int, *values: bytes, epoch: int = 0, producer_id: int = 7) -> bytes:
    return batch_of(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


@pytest.mark.row(14, 15)
@pytest.mark.invariant("T1")
async def test_line_28_a_retry_of_one_of_the_last_five_batches_is_answered_with_its_offset(
    broker: QuietBroker,
) -> None:
    await broker.create("orders")
    talk = broker.talk()
    for sequence in range(6):
        await talk.produce("orders", numbered(sequence, b"x"))
    for sequence in range(1, 6):
        again = await talk.produce("orders", numbered(sequence, b"x"))
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, sequence)
    assert broker.partition("orders").log.end_offset == 6
    too_old = await talk.produce("orders", numbered(0, b"x"))
    assert too_old.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.invariant("T3")
async def test_line_28_the_answer_to_a_retry_waits_like_the_original(broker: QuietBroker) -> None:
    await broker.create("orders")
    share(broker, "orders", isr=(1, 2))
    talk, follower = broker.talk(), broker.talk()
    for _ in range(2):
        talk.send(PRODUCE, 11, produce_request("orders", numbered(0, b"x"), acks=-1))
    assert talk.receive() == []
    follower_fetch(follower, "orders", 1)
    answers = [answer.responses[0].partition_responses[0] for answer in talk.receive()]
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, 0)]


@pytest.mark.row(15)
@pytest.mark.invariant("T1")
@pytest.mark.parametrize(
    ("batches", "error"),
    [
        ([(0, 0), (2, 0)], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([(0, 0), (1, 1)], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([(0, 1), (0, 0)], ErrorCode.INVALID_PRODUCER_EPOCH),
        ([(0, 0), (0, 1)], ErrorCode.NONE),
        ([(2**31 - 1, 0), (0, 0)], ErrorCode.NONE),
        ([(500, 3)], ErrorCode.NONE),
    ],
)
async def test_line_29_sequences_go_on_without_gaps(
    broker: QuietBroker, batches: list[tuple[int, int]], error: ErrorCode
) -> None:
    await broker.create("orders")
    talk = broker.talk()
    for sequence, epoch in batches:
        answer = await talk.produce("orders", numbered(sequence, b"x", epoch=epoch))
    assert answer.error_code == error


@pytest.mark.invariant("T2")
async def test_line_30_what_is_known_of_producers_survives_a_restart() -> None:
    first = QuietBroker()
    await first.create("orders")
    await first.talk().produce("orders", numbered(0, b"x"))
    await first.stop()
    second = QuietBroker(disk=first.disk)
    second.cluster.image = first.cluster.image
    second.cluster.commit([])
    again = await second.talk().produce("orders", numbered(0, b"x"))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    assert second.partition("orders").log.end_offset == 1
    await second.stop()


@pytest.mark.row(20)
async def test_line_31_pipelined_batches_are_appended_in_order_while_earlier_ones_wait(
    broker: QuietBroker,
) -> None:
    await broker.create("orders")
    share(broker, "orders", isr=(1, 2))
    talk = broker.talk()
    for sequence in range(20):
        talk.send(PRODUCE, 9, produce_request("orders", numbered(sequence, b"%d" % sequence), acks=-1))
    assert broker.partition("orders").log.end_offset == 20
    assert talk.receive() == []
    follower_fetch(broker.talk(), "orders", 20)
    offsets = [answer.responses[0].partition_responses[0].base_offset for answer in talk.receive()]
    assert offsets == list(range(20))


@pytest.mark.row(20)
@pytest.mark.invariant("T4")
async def test_line_31_order_holds_where_batches_are_looked_into_off_the_loop(broker: QuietBroker) -> None:
    """The thread's work takes its time; a batch sent later must not overtake."""
    await broker.create("orders", compression_type="zstd")
    talk = broker.talk()
    for sequence in range(10):
        talk.send(PRODUCE, 9, produce_request("orders", numbered(sequence, b"%d" % sequence)))
    answers = [answer.responses[0].partition_responses[0] for answer in await talk.receive_some(10)]
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, offset) for offset in range(10)]


@pytest.mark.row(20)
async def test_line_31_batches_that_were_looked_into_are_pipelined_while_earlier_ones_wait_for_replicas(
    broker: QuietBroker,
) -> None:
    """Only until they are written do later requests wait, not until they are committed."""
    await broker.create("table", cleanup_policy="compact")
    share(broker, "table", isr=(1, 2))
    talk = broker.talk()
    for sequence in range(5):
        talk.send(PRODUCE, 9, produce_request("table", numbered(sequence, b"%d" % sequence), acks=-1))

    def written() -> bool:
        broker.scheduler.run()
        return broker.partition("table").log.end_offset == 5

    await until(written)
    assert talk.receive() == []
    follower_fetch(broker.talk(), "table", 3)
    assert [answer.responses[0].partition_responses[0].base_offset for answer in talk.receive()] == [0, 1, 2]
    follower_fetch(broker.talk(), "table", 5)
    assert [answer.responses[0].partition_responses[0].base_offset for answer in talk.receive()] == [3, 4]


@pytest.mark.invariant("P4", "P11")
@pytest.mark.parametrize(
    ("leader", "told"), [(1, ErrorCode.NONE), (2, ErrorCode.NOT_LEADER_OR_FOLLOWER)], ids=["committed", "deposed"]
)
async def test_line_31_what_happens_to_one_batch_while_another_is_looked_into_is_not_missed(
    broker: QuietBroker, leader: int, told: ErrorCode
) -> None:
    """The first batch of the request is settled before the request begins to wait: nothing will wake it."""
    await broker.create("orders")
    await broker.create("table", cleanup_policy="compact")
    share(broker, "orders", isr=(1, 2))
    looked_into = threading.Event()
    broker.executor.submit(looked_into.wait)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch_of(b"x"))])
            for name in ("orders", "table")
        ],
    )
    talk = broker.talk()
    talk.send(PRODUCE, 9, request)
    assert (broker.partition("orders").log.end_offset, broker.partition("table").log.end_offset) == (1, 0)
    if leader == 1:
        follower_fetch(broker.talk(), "orders", 1)
    else:
        topic_id = broker.cluster.image.topic_ids["orders"]
        broker.cluster.commit([PartitionChangeRecord(topic_id, 0, leader=leader)])
    broker.scheduler.run()
    looked_into.set()
    (answer,) = await talk.receive_some(1)
    codes = [topic.partition_responses[0].error_code for topic in answer.responses]
    assert codes == [told, ErrorCode.NONE]
    assert broker.waiters.size("Produce") == 0


async def test_line_23_acks_0_that_fails_off_the_loop_closes_the_connection(broker: QuietBroker) -> None:
    """As it does where nothing is looked into: the client's fault, and no error of ours."""
    await broker.create("table", cleanup_policy="compact")
    talk = broker.talk()
    talk.send(PRODUCE, 9, produce_request("table", batch_of(b"x", key=None), acks=0))
    await until(lambda: not talk.is_open)
    assert not talk.transport.aborted
    assert talk.transport.take_frames() == []


# --- topics' own wishes -----------------------------------------------------------------------------------


@pytest.mark.row(32, 48)
@pytest.mark.parametrize("theirs", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
@pytest.mark.parametrize("ours", list(Codec))
async def test_batches_are_stored_in_the_codec_of_the_topic(
    broker: QuietBroker, theirs: str, ours: Codec
) -> None:
    await broker.create("orders", compression_type=theirs)
    talk = broker.talk()
    values = [b"value %d" % number * 20 for number in range(50)]
    assert (await talk.produce("orders", batch_of(*values, codec=ours))).error_code == ErrorCode.NONE
    read = await talk.fetch("orders", 0)
    named = {"producer": ours, "uncompressed": Codec.NONE}
    wanted = named[theirs] if theirs in named else Codec[theirs.upper()]
    assert read_header(read.records or b"").codec == wanted
    assert [record.value for record in read_records(read.records or b"")] == values


@pytest.mark.row(49)
@pytest.mark.parametrize("codec", list(Codec))
async def test_records_inside_are_checked_where_the_broker_is_asked_to(codec: Codec) -> None:
    """The batch is whole and its checksum right, but what is inside is not what the header says."""
    broker = QuietBroker(config={"rookery.validate.records": "all"})
    await broker.create("orders")
    two, one = batch_of(b"a", b"b", codec=codec), batch_of(b"a", codec=codec)

    def claim_one(batch: bytearray) -> None:
        pack_into(">i", batch, 23, 0)
        pack_into(">i", batch, 57, 1)

    talk = broker.talk()
    answer = await talk.produce("orders", resealed(two, claim_one))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert broker.partition("orders").log.end_offset == 0
    assert (await talk.produce("orders", one)).error_code == ErrorCode.NONE
    await broker.stop()


@pytest.mark.row(49)
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
async def test_records_that_cannot_be_decompressed_are_invalid(broker: QuietBroker, codec: Codec) -> None:
    await broker.create("orders", compression_type="zstd" if codec is not Codec.ZSTD else "gzip")

    def spoil(batch: bytearray) -> None:
        batch[61:] = bytes(len(batch) - 61)

    answer = await broker.talk().produce("orders", resealed(batch_of(b"x" * 100, codec=codec), spoil))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert broker.partition("orders").log.end_offset == 0


@pytest.mark.row(47)
@pytest.mark.parametrize("base", [2**31 - 2, 2**32 - 2, 2**62])
async def test_offsets_have_64_bits(broker: QuietBroker, base: int) -> None:
    await broker.create("orders")
    partition = broker.partition("orders")
    partition.log.truncate_fully_and_start_at(base)
    talk = broker.talk()
    placed = [(await talk.produce("orders", batch_of(b"a", b"b"), acks=-1)).base_offset for _ in range(3)]
    assert placed == [base, base + 2, base + 4]
    read = await talk.fetch("orders", base + 3)
    assert read_header(read.records or b"").base_offset == base + 2
    assert read.high_watermark == base + 6


@pytest.mark.row(31)
async def test_a_single_partition_has_one_order_for_all(broker: QuietBroker) -> None:
    await broker.create("orders")
    writers, readers = [broker.talk() for _ in range(3)], [broker.talk() for _ in range(2)]
    for number in range(10):
        for name, talk in enumerate(writers):
            talk.send(PRODUCE, 9, produce_request("orders", batch_of(b"%d-%d" % (name, number))))
    seen = []
    for reader in readers:
        data = (await reader.fetch("orders", 0)).records or b""
        seen.append([read_records(data, position)[0].value for position, _ in batches(data)])
    assert seen[0] == seen[1]
    for name in range(3):
        own = [value for value in seen[0] if value is not None and value.startswith(b"%d-" % name)]
        assert own == [b"%d-%d" % (name, number) for number in range(10)]


async def test_each_partition_of_a_request_is_answered_by_itself(broker: QuietBroker) -> None:
    await broker.create("orders", partitions=2)
    good, bad = batch_of(b"x"), b"\0" * 80
    request = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="orders",
                partition_data=[
                    PartitionProduceData(index=0, records=good),
                    PartitionProduceData(index=9, records=good),
                    PartitionProduceData(index=1, records=bad),
                ],
            ),
            TopicProduceData(name="nowhere", partition_data=[PartitionProduceData(index=0, records=good)]),
            TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=1, records=good)]),
        ],
    )
    answer = await broker.talk().ask(PRODUCE, 11, request)
    codes = [[one.error_code for one in topic.partition_responses] for topic in answer.responses]
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_RECORD
    assert codes == [[0, unknown, invalid], [unknown], [0]]


async def test_a_transactional_producer_may_write_outside_of_transactions(broker: QuietBroker) -> None:
    await broker.create("orders")
    request = produce_request("orders", batch_of(b"x"), acks=-1)
    request.transactional_id = "transfers"
    answer = await broker.talk().ask(PRODUCE, 11, request)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


async def test_without_a_coordinator_no_transaction_is_written(broker: QuietBroker) -> None:
    """The client sends the batch again; it never passes unasked."""
    await broker.create("orders")
    batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    request = produce_request("orders", batch, acks=-1)
    request.transactional_id = "transfers"
    answer = await broker.talk().ask(PRODUCE, 11, request)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert broker.partition("orders").log.end_offset == 0


async def test_a_transactional_batch_needs_a_transactional_id(broker: QuietBroker) -> None:
    """Else anybody could hold back the readers of committed records for ever."""
    await broker.create("orders")
    talk = broker.talk()
    batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    answer = await talk.produce("orders", batch)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert (await talk.fetch("orders", 0, isolation_level=1)).last_stable_offset == 0
    assert broker.partition("orders").log.end_offset == 0


@pytest.mark.invariant("T4")
async def test_a_broken_handler_closes_the_connection_rather_than_say_unknown_error(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create("orders")

    def break_down(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(broker.partition("orders").log, "append_as_leader", break_down)
    talk, other = broker.talk(), broker.talk()
    talk.send(PRODUCE, 11, produce_request("orders", numbered(0, b"x")))
    assert talk.transport.aborted
    assert talk.transport.take_frames() == []
    assert (await other.fetch("orders", 0)).error_code == ErrorCode.NONE


@pytest.mark.row(1, 141)
async def test_traffic_is_counted_by_topic(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    batch = batch_of(b"a", b"b", b"c")
    await talk.produce("orders", batch)
    await talk.produce("orders", b"")
    await talk.fetch("orders", 0)
    traffic = broker.topic_metrics["orders"]
    assert (traffic.messages_in, traffic.bytes_in, traffic.bytes_out) == (3, len(batch), len(batch))
    assert (traffic.produce_requests, traffic.failed_produces, traffic.fetch_requests) == (2, 1, 1)


@pytest.mark.row(12, 152)
async def test_what_is_acknowledged_is_counted_when_it_is(broker: QuietBroker) -> None:
    await broker.create("orders", min_insync_replicas="2")
    share(broker, "orders", isr=(1, 2))
    talk, follower = broker.talk(), broker.talk()
    traffic = broker.topic_metrics["orders"]
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"a", b"b"), acks=-1))
    assert traffic.acked == 0
    follower_fetch(follower, "orders", 2)
    assert len(talk.receive()) == 1
    assert traffic.acked == 2
    await talk.produce("orders", batch_of(b"c"), acks=1)
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"d"), acks=0))
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(b"e"), acks=-1, timeout_ms=250))
    broker.advance(1.0)
    assert (traffic.acked, traffic.messages_in) == (3, 5)
