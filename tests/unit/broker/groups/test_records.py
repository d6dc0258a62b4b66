"""The bytes in `__consumer_offsets`."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.broker.groups.records import (
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetCommitValue,
    OffsetRecord,
    decode,
    encode,
)
from rookery.core.wire.consumer_protocol import subscribed_topics
from rookery.core.wire.primitives import WireError
from tests.unit.broker.groups.driver import subscription

_text = st.text(max_size=20)
_int32 = st.integers(-(2**31), 2**31 - 1)
_int64 = st.integers(-(2**63), 2**63 - 1)
_offsets = st.builds(
    OffsetRecord,
    _text,
    _text,
    _int32,
    st.none()
    | st.builds(
        OffsetCommitValue,
        offset=_int64,
        leader_epoch=_int32,
        metadata=_text,
        commit_timestamp=_int64,
        topic_id=st.uuids(),
    ),
)
_members = st.builds(
    MemberMetadata,
    member_id=_text,
    group_instance_id=st.none() | _text,
    client_id=_text,
    client_host=_text,
    rebalance_timeout=_int32,
    session_timeout=_int32,
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
_groups = st.builds(
    GroupRecord,
    _text,
    st.none()
    | st.builds(
        GroupMetadataValue,
        protocol_type=_text,
        generation=_int32,
        protocol=st.none() | _text,
        leader=st.none() | _text,
        current_state_timestamp=_int64,
        members=st.lists(_members, max_size=3),
    ),
)


@given(_offsets | _groups)
def test_records_come_back_as_they_were(record: OffsetRecord | GroupRecord) -> None:
    assert decode(*encode(record)) == record


@pytest.mark.row(103)
def test_known_bytes() -> None:
    """As Kafka 4.1 writes them."""
    key, value = encode(
        OffsetRecord("g", "topic", 3, OffsetCommitValue(
            offset=42, leader_epoch=5, metadata="note", commit_timestamp=1_700_000_000_000
        ))
    )  # fmt: skip
    assert key.hex() == "0001" "000167" "0005746f706963" "00000003"
    assert value is not None
    assert value.hex() == "0004" "000000000000002a" "00000005" "056e6f7465" "0000018bcfe56800" "00"
    _, value = encode(
        OffsetRecord("g", "topic", 3, OffsetCommitValue(
            offset=42, leader_epoch=5, metadata="", commit_timestamp=1, topic_id=UUID(int=0xABCD)
        ))
    )  # fmt: skip
    assert value is not None
    assert value.hex() == "0004" "000000000000002a" "00000005" "01" "0000000000000001" "01" "00" "10" + f"{0xABCD:032x}"
    key, value = encode(
        GroupRecord("g", GroupMetadataValue(
            protocol_type="consumer", generation=7, protocol=None, leader=None, current_state_timestamp=1, members=[]
        ))
    )  # fmt: skip
    assert key.hex() == "0002" "000167"
    assert value is not None
    assert value.hex() == "0003" "0008636f6e73756d6572" "00000007" "ffff" "ffff" "0000000000000001" "00000000"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0000" "000000000000002a" "0000" "0000000000000001", (42, -1, 1, -1)),
        ("0001" "000000000000002a" "0000" "0000000000000001" "0000000000000002", (42, -1, 1, 2)),
        ("0002" "000000000000002a" "0000" "0000000000000001", (42, -1, 1, -1)),
        ("0003" "000000000000002a" "00000005" "0000" "0000000000000001", (42, 5, 1, -1)),
        ("0004" "000000000000002a" "00000005" "01" "0000000000000001" "00", (42, 5, 1, -1)),
    ],
)
def test_values_of_all_versions_are_read(value: str, expected: tuple[int, ...]) -> None:
    for kind in ("0000", "0001"):
        record = decode(bytes.fromhex(kind + "000167" "000174" "00000000"), bytes.fromhex(value))
        assert isinstance(record, OffsetRecord)
        stored = record.value
        assert stored is not None
        found = (stored.offset, stored.leader_epoch, stored.commit_timestamp, stored.expire_timestamp)
        assert found == expected


def test_an_offset_that_expires_is_stored_in_the_version_that_can_say_so() -> None:
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=2, expire_timestamp=3)
    record = OffsetRecord("g", "t", 0, value)
    stored = encode(record)[1]
    assert stored is not None
    assert stored[:2] == b"\0\1"
    assert decode(*encode(record)) == record


@pytest.mark.parametrize("kind", [*range(9, 16), *range(17, 24)])
def test_kinds_that_are_not_known_are_left_alone(kind: int) -> None:
    assert decode(kind.to_bytes(2, "big") + b"\0\1g", b"\0\0anything") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b""), (b"\0", b""), (b"\0\1\0\5g", b""), (b"\0\2\0\1g", b"\0"), (b"\0\2\0\1g", b"\0\x09zz")],
)
def test_damaged_bytes_are_refused(key: bytes | None, value: bytes) -> None:
    with pytest.raises(WireError):
        decode(key, value)


def test_subscriptions_of_consumers_are_understood() -> None:
    assert subscribed_topics(subscription("a", "b")) == frozenset("ab")
    assert subscribed_topics(b"") is None
    assert subscribed_topics(b"\0\0\0\0\0\5\0\1a") is None
