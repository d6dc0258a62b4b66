import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from rookery.client.partitioner import murmur2, partition_for_key


@pytest.mark.row(23)
@given(st.binary(max_size=40))
def test_the_hash_of_a_key_is_the_other_clients(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@pytest.mark.row(23)
@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"abc", 479470107),
    ],
)
def test_known_values_of_the_java_client(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


def test_partitions_are_in_range() -> None:
    assert {partition_for_key(str(n).encode(), 7) for n in range(200)} == set(range(7))
