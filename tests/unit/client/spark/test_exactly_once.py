"""The rows of a transaction on their way to the producer, which is a list here."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from rookery.client.partitioner import partition_for_key
from rookery.client.spark.exactly_once import send_rows

Sent = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class Recording:
    """What is sent to each partition: value, key, headers."""

    def __init__(self) -> None:
        self.sent: dict[int, list[Sent]] = defaultdict(list)

    async def send_many(
        self, topic: str, values: Sequence[bytes], *, keys: Sequence[bytes | None] | None, partition: int
    ) -> None:
        for value, key in zip(values, keys or [None] * len(values), strict=True):
            self.sent[partition].append((value, key, []))

    async def send(self, topic: str, value: bytes, *, key: bytes, headers: Any, partition: int) -> None:
        self.sent[partition].append((value, key, headers))


def sent(turn: int = 0, **columns: pa.Array) -> dict[int, list[Sent]]:
    producer = Recording()
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    asyncio.run(send_rows(producer, "t", batch, 2, turn))  # type: ignore[arg-type]
    return dict(producer.sent)


def test_keys_choose_and_a_rows_own_partition_goes_before() -> None:
    texts = [str(number) for number in range(20)]
    own = [None if number % 3 else 1 for number in range(20)]
    wanted: dict[int, list[Sent]] = defaultdict(list)
    for text, given in zip(texts, own, strict=True):
        index = partition_for_key(text.encode(), 2) if given is None else given
        wanted[index].append((text.encode(), text.encode(), []))
    assert sent(value=pa.array(texts), key=pa.array(texts), partition=pa.array(own, pa.int32())) == wanted


def test_rows_without_a_key_go_to_the_partition_whose_turn_it_is() -> None:
    for turn in range(3):
        found = sent(turn, value=pa.array(["a", None]), key=pa.array([None, None], pa.string()))
        assert found == {turn % 2: [(b"a", None, []), (None, None, [])]}


def test_headers_go_with_their_rows() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "h", "value": b"x"}, {"key": "n", "value": None}], None], kind)
    found = sent(value=pa.array([b"a", b"b"]), headers=headers)
    assert found == {0: [(b"a", None, [("h", b"x"), ("n", None)]), (b"b", None, [])]}
    nameless = pa.array([[{"key": None, "value": b"x"}]], kind)
    with pytest.raises(ValueError, match="a header without a key"):
        sent(value=pa.array([b"a"]), headers=nameless)
