"""Keys hashed by columns choose the partitions that they choose one by one."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.client.partitioner import murmur2, partition_for_key
from rookery.client.spark import hashing


@pytest.mark.row(173)
@given(st.lists(st.binary(max_size=hashing.LONGEST + 40), min_size=1, max_size=50), st.integers(1, 1000))
def test_keys_choose_the_partitions_of_javas_client(keys: list[bytes], partitions: int) -> None:
    column = pa.array([b"before", *keys], pa.binary()).slice(1)
    assert hashing.partitions_of(column, partitions).to_pylist() == [
        partition_for_key(key, partitions) for key in keys
    ]


def test_a_known_hash() -> None:
    """Of Java's client: the hash of 21 is -973932308."""
    column = pa.array([b"21"], pa.binary())
    assert hashing.murmur2(column, pa.array([2], pa.int32())).to_pylist() == [murmur2(b"21")] == [2**32 - 973932308]
