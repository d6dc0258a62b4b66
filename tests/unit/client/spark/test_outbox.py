"""Rows on their way to partitions, over a scripted cluster."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from rookery.client.partitioner import partition_for_key
from rookery.client.spark.blocking import BlockingCluster
from rookery.client.spark.options import SinkOptions, sink_options
from rookery.client.spark.outbox import Outbox
from rookery.core.errors import ErrorCode, MessageTooLargeError
from rookery.core.net.connection import ConnectionLostError
from tests.unit.client.scripted import Scripted


def parsed(**options: str) -> SinkOptions:
    columns = [("value", "string"), ("topic", "string")]
    return sink_options({"kafka.bootstrap.servers": "a:9092", **options}, columns)


@pytest.fixture
def cluster() -> Scripted:
    return Scripted()


@pytest.fixture
def blocking(cluster: Scripted) -> Iterator[BlockingCluster]:
    opened = BlockingCluster(parsed().connecting, cluster)
    yield opened
    opened.close()


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@pytest.mark.row(173)
def test_rows_are_written_in_order_by_partition(blocking: BlockingCluster, cluster: Scripted) -> None:
    """Keys choose, a row's own partition goes before, and no batch is larger than a request may be."""
    outbox = Outbox(blocking, parsed(topic="t", **{"kafka.max.request.size": "1000"}))
    rows = [(b"%d" % n, b"k%d" % n, None if n % 2 else 1) for n in range(200)]
    for first in range(0, 200, 50):
        values, keys, given = zip(*rows[first : first + 50], strict=True)
        outbox.add(batch(value=pa.array(values), key=pa.array(keys), partition=pa.array(given, pa.int32())))
    outbox.finish()
    assert outbox.written == 200
    assert len(cluster.written) > 8
    wanted: dict[int, list[bytes]] = {0: [], 1: []}
    for value, key, partition in rows:
        wanted[partition_for_key(key, 2) if partition is None else partition].append(value)
    for index, values_there in wanted.items():
        assert [each for partition, found in cluster.written if partition == index for each in found] == values_there


def test_the_column_says_the_topic_unless_the_option_does(blocking: BlockingCluster, cluster: Scripted) -> None:
    rows = batch(value=pa.array(["a", "b", "c"]), topic=pa.array(["t", "u", "t"]))
    for options in (parsed(), parsed(topic="v")):
        outbox = Outbox(blocking, options)
        outbox.add(rows)
        outbox.finish()
    assert cluster.topics == {"t": [b"a", b"c"], "u": [b"b"], "v": [b"a", b"b", b"c"]}


def test_rows_without_a_key_change_partition_with_every_flush(blocking: BlockingCluster, cluster: Scripted) -> None:
    outbox = Outbox(blocking, parsed(topic="t"), turn=1)
    for text in ("a", "b", "c"):
        outbox.add(batch(value=pa.array([text] * 2)))
        outbox.flush()
    outbox.finish()
    assert cluster.written == [(1, [b"a"] * 2), (0, [b"b"] * 2), (1, [b"c"] * 2)]


def test_nothing_to_write_is_nothing_written(blocking: BlockingCluster, cluster: Scripted) -> None:
    outbox = Outbox(blocking, parsed(topic="t"))
    outbox.add(batch(value=pa.array([], pa.string())))
    outbox.finish()
    assert (outbox.written, cluster.written) == (0, [])


def test_rows_that_cannot_be_placed_are_an_error(
    blocking: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rookery.client.spark.outbox.METADATA_WAIT_S", 0.3)
    outbox = Outbox(blocking, parsed())
    with pytest.raises(ValueError, match="no topic"):
        outbox.add(batch(value=pa.array(["v"]), topic=pa.array([None], pa.string())))
    for partition in (2, -1):
        with pytest.raises(ValueError, match=f"partition {partition}, which 't' does not have"):
            outbox.add(batch(value=pa.array(["v"]), topic=pa.array(["t"]), partition=pa.array([partition], pa.int32())))


@pytest.mark.row(173)
def test_a_topic_that_grew_is_written_as_it_is_now(blocking: BlockingCluster, cluster: Scripted) -> None:
    """A worker lives for many tasks; each asks anew, and for a partition a row names once more."""
    keys = [b"k%d" % number for number in range(50)]
    for partitions in (2, 4):
        cluster.partitions = partitions
        outbox = Outbox(blocking, parsed(topic="t"))
        outbox.add(batch(value=pa.array(keys), key=pa.array(keys)))
        outbox.finish()
        for partition, values in cluster.written:
            assert [partition_for_key(value, partitions) for value in values if value] == [partition] * len(values)
        cluster.written.clear()
    outbox.add(batch(value=pa.array(["before"])))
    cluster.partitions = 6
    outbox.add(batch(value=pa.array(["after"]), partition=pa.array([5], pa.int32())))
    outbox.finish()
    assert (5, [b"after"]) in cluster.written


@pytest.mark.row(173)
def test_batches_too_large_for_their_topic_are_split(blocking: BlockingCluster, cluster: Scripted) -> None:
    """The next task of this worker knows; a single row that is too large is an error."""
    cluster.batch_bytes_max = 1000
    refused: list[int] = []
    rows = [b"%03d" % number + bytes(97) for number in range(100)]
    for _ in range(2):
        outbox = Outbox(blocking, parsed(topic="t"))
        outbox.add(batch(value=pa.array(rows)))
        outbox.finish()
        assert outbox.written == 100
        assert [value for _, values in cluster.written for value in values] == rows
        refused.append(cluster.refused)
        cluster.written.clear()
    assert 0 < refused[0] == refused[1] < 20
    outbox = Outbox(blocking, parsed(topic="t"))
    outbox.add(batch(value=pa.array([bytes(2000)])))
    with pytest.raises(MessageTooLargeError):
        outbox.finish()


def test_no_batch_is_larger_than_a_request_may_be(blocking: BlockingCluster, cluster: Scripted) -> None:
    cluster.batch_bytes_max = 1 << 20
    outbox = Outbox(blocking, parsed(topic="t"))
    outbox.add(batch(value=pa.array([bytes((1 << 19) - 26)] * 2)))
    outbox.finish()
    assert (outbox.written, cluster.refused) == (2, 0)


def test_what_is_refused_is_an_error_of_the_task() -> None:
    """No later than at the end: a task never says that it wrote what the cluster does not have."""
    blocking = BlockingCluster(parsed().connecting, Scripted(ErrorCode.MESSAGE_TOO_LARGE))
    outbox = Outbox(blocking, parsed(topic="t"))
    outbox.add(batch(value=pa.array(["v"])))
    with pytest.raises(MessageTooLargeError):
        outbox.finish()
    blocking.close()


@pytest.mark.invariant("T1")
def test_a_batch_is_stored_once_although_its_answer_was_lost() -> None:
    """Batches of a partition that follow it keep their order and their numbers."""
    cluster = Scripted(ConnectionLostError("the answer is lost"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    blocking = BlockingCluster(parsed().connecting, cluster)
    for words in (["a", "b"], ["c"]):
        outbox = Outbox(blocking, parsed(topic="t"))
        outbox.add(batch(value=pa.array(words), partition=pa.array([1] * len(words), pa.int32())))
        outbox.finish()
    blocking.close()
    assert cluster.topics["t"] == [b"a", b"b", b"c"]
    assert cluster.stamps == [(100, 1, 0), (100, 1, 0), (100, 1, 0), (100, 1, 2)]


def test_no_numbers_without_all_acknowledgements(cluster: Scripted) -> None:
    blocking = BlockingCluster(parsed().connecting, cluster)
    outbox = Outbox(blocking, parsed(topic="t", **{"kafka.acks": "1"}))
    outbox.add(batch(value=pa.array(["a"])))
    outbox.finish()
    blocking.close()
    assert [(producer, sequence) for producer, _, sequence in cluster.stamps] == [(-1, -1)]
