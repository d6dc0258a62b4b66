"""`__transaction_state` as Kafka writes it."""

from struct import pack

import pytest

from rookery.broker.transactions.records import TransactionRecord, decode, encode
from rookery.broker.transactions.transaction import State, Transaction
from rookery.core.types import TopicPartition
from rookery.core.wire.primitives import WireError

KEY = bytes.fromhex("0000 0002 7478")
"""Version 0, then the id "tx"."""
PARTITIONS = frozenset({TopicPartition("b", 4), TopicPartition("a", 1), TopicPartition("a", 0)})
ONGOING = Transaction("tx", 258, 3, 60_000, State.ONGOING, PARTITIONS, 1000, 900)
EMPTY = Transaction("tx", 258, 0, 60_000, State.EMPTY, frozenset(), 1000)
DONE = Transaction("tx", 258, 3, 60_000, State.COMPLETE_COMMIT, frozenset(), 1000, 900)
OVERFLOW = Transaction(
    "tx", 258, 32767, 60_000, State.PREPARE_ABORT, PARTITIONS, 1000, 900,
    previous_producer_id=257, next_producer_id=259, version=2,
)  # fmt: skip

HEAD = "0000000000000102 {epoch} 0000ea60 {state}"
TIMES = "00000000000003e8 {started}"
TOPICS_0 = "00000002 0001 61 00000002 00000000 00000001 0001 62 00000001 00000004"
TOPICS_1 = "03 02 61 03 00000000 00000001 00 02 62 02 00000004 00"
GOLDEN = [
    (ONGOING, 0, "0000", "0003", "01", TOPICS_0, "0000000000000384", ""),
    (EMPTY, 0, "0000", "0000", "00", "ffffffff", "ffffffffffffffff", ""),
    (DONE, 0, "0000", "0003", "04", "00000000", "0000000000000384", ""),
    (ONGOING, 1, "0001", "0003", "01", TOPICS_1, "0000000000000384", "00"),
    (EMPTY, 2, "0001", "0000", "00", "00", "ffffffffffffffff", "00"),
    (DONE, 2, "0001", "0003", "04", "01", "0000000000000384", "00"),
    (
        OVERFLOW, 2, "0001", "7fff", "03", TOPICS_1, "0000000000000384",
        "03 00 08 0000000000000101 01 08 0000000000000103 02 02 0002",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("transaction", "version", "schema", "epoch", "state", "topics", "started", "tags"), GOLDEN)
def test_the_bytes_are_kafkas(
    transaction: Transaction, version: int, schema: str, epoch: str, state: str, topics: str, started: str, tags: str
) -> None:
    head = HEAD.format(epoch=epoch, state=state)
    value = bytes.fromhex(f"{schema} {head} {topics} {TIMES.format(started=started)} {tags}")
    record = TransactionRecord("tx", transaction)
    assert encode(record, version) == (KEY, value)
    assert decode(KEY, value) == record


def test_what_version_0_cannot_hold_is_written_in_version_1() -> None:
    """A client may use the new rules before the cluster has agreed on them."""
    record = TransactionRecord("tx", OVERFLOW)
    key, value = encode(record, 0)
    assert decode(key, value) == record


def test_a_tombstone() -> None:
    record = TransactionRecord("tx", None)
    assert encode(record, 2) == (KEY, None)
    assert decode(KEY, None) == record


def test_other_versions_are_left_alone() -> None:
    key, value = encode(TransactionRecord("tx", ONGOING), 1)
    assert value is not None
    assert decode(pack(">h", 1) + key[2:], value) is None
    assert decode(key, pack(">h", 2) + value[2:]) is None
    assert decode(None, value) is None


def test_fields_of_later_releases_are_passed_over() -> None:
    key, value = encode(TransactionRecord("tx", ONGOING), 1)
    assert value is not None
    known = decode(key, value)
    assert decode(key, value[:-1] + bytes.fromhex("02 03 02 0007 09 01 ff")) == known


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"\0", b"\0\0"), (KEY[:-1], b"\0\0"), (KEY, b"\0"), (KEY, b"\0\0\1"), (KEY, b"\0\1" + b"\xff" * 40)],
)
def test_damaged_bytes(key: bytes, value: bytes) -> None:
    with pytest.raises(WireError):
        decode(key, value)
