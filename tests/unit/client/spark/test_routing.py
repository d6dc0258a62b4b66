"""Which partition a row goes to, and rows by partition."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.client.partitioner import murmur2, partition_for_key
from rookery.client.spark import routing
from rookery.client.spark.routing import grouped, route


@pytest.mark.row(173)
@given(st.lists(st.binary(max_size=routing.LONGEST + 40), min_size=1, max_size=50), st.integers(1, 1000))
def test_keys_choose_the_partitions_of_javas_client(keys: list[bytes], partitions: int) -> None:
    column = pa.array([b"before", *keys], pa.binary()).slice(1)
    assert routing.partitions_of(column, partitions).to_pylist() == [
        partition_for_key(key, partitions) for key in keys
    ]


def test_a_known_hash() -> None:
    """Of Java's client: the hash of 21 is -973932308."""
    column = pa.array([b"21"], pa.binary())
    assert routing.murmur2(column, pa.array([2], pa.int32())).to_pylist() == [murmur2(b"21")] == [2**32 - 973932308]


def test_a_rows_own_partition_goes_before_its_key_and_a_key_before_the_turn() -> None:
    keys = pa.array([b"a", b"a", None, None], pa.binary())
    given_ = pa.array([4, None, 3, None], pa.int32())
    assert route(keys, given_, 5, 12).to_pylist() == [4, partition_for_key(b"a", 5), 3, 2]
    assert route(keys, None, 5, 12).to_pylist() == [partition_for_key(b"a", 5)] * 2 + [2, 2]
    assert route(keys.slice(2), None, 5, 1).to_pylist() == [1, 1]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=100))
def test_groups_keep_the_order_of_their_rows(groups: list[int]) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(range(len(groups)))], names=["n"])
    found = {group: part.column("n").to_pylist() for group, part in grouped(rows, pa.array(groups, pa.int32()))}
    assert found == {
        wanted: [n for n, group in enumerate(groups) if group == wanted] for wanted in set(groups)
    }
