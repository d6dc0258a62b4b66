"""Records of groups of the consumer protocol, byte by byte as Kafka's schemas have them."""

from uuid import UUID

import pytest

from rookery.broker.groups.consumer.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerRecord,
    CurrentPartitions,
    CurrentValue,
    GroupValue,
    Kind,
    MemberTargetValue,
    MemberValue,
    RegexValue,
    TargetPartitions,
    TargetValue,
)
from rookery.broker.groups.records import decode, encode
from rookery.core.wire.primitives import WireError

TOPIC = UUID(int=7)
ID = TOPIC.bytes.hex()
CASES = [
    (ConsumerRecord(Kind.GROUP, "g", "", GroupValue(epoch=3)), "0003000167", "00000000000300"),
    (
        ConsumerRecord(Kind.GROUP, "g", "", GroupValue(epoch=3, metadata_hash=-1)),
        "0003000167",
        "000000000003" + "010008ffffffffffffffff",
    ),
    (
        ConsumerRecord(
            Kind.MEMBER,
            "g",
            "m",
            MemberValue(
                instance_id="i",
                rack_id=None,
                client_id="c",
                client_host="/h",
                subscribed_topic_names=["t"],
                subscribed_topic_regex=None,
                rebalance_timeout_ms=9,
                server_assignor="range",
            ),
        ),
        "00050001670001" + "6d",
        "0000" + "0269" + "00" + "0263" + "032f68" + "020274" + "00" + "00000009" + "0672616e6765" + "01000100",
    ),
    (
        ConsumerRecord(
            Kind.MEMBER,
            "g",
            "m",
            MemberValue(
                client_id="",
                client_host="",
                subscribed_topic_names=[],
                classic=ClassicMemberMetadata(
                    session_timeout_ms=5, supported_protocols=[ClassicProtocol(name="r", metadata=b"\1")]
                ),
            ),
        ),
        "000500016700016d",
        "0000" + "00" + "00" + "01" + "01" + "01" + "00" + "ffffffff" + "00"
        + "01" + "000c" + "01" + "00000005" + "02" + "0272" + "0201" + "00" + "00",
    ),
    (
        ConsumerRecord(Kind.TARGET, "g", "", TargetValue(assignment_epoch=2, assignment_timestamp=1)),
        "0006000167",
        "000000000002" + "0100080000000000000001",
    ),
    (
        ConsumerRecord(
            Kind.MEMBER_TARGET,
            "g",
            "m",
            MemberTargetValue(topic_partitions=[TargetPartitions(topic_id=TOPIC, partitions=[0, 2])]),
        ),
        "000700016700016d",
        "0000" + "02" + ID + "03" + "00000000" + "00000002" + "00" + "00",
    ),
    (
        ConsumerRecord(
            Kind.CURRENT,
            "g",
            "m",
            CurrentValue(
                member_epoch=4,
                previous_member_epoch=3,
                state=1,
                assigned_partitions=[CurrentPartitions(topic_id=TOPIC, partitions=[1], assignment_epochs=[4])],
                partitions_pending_revocation=[],
            ),
        ),
        "000800016700016d",
        "0000" + "00000004" + "00000003" + "01" + "02" + ID + "02" + "00000001" + "01" + "00" + "05" + "02" + "00000004"
        + "01" + "00",
    ),
    (
        ConsumerRecord(Kind.REGEX, "g", "t.*", RegexValue(topics=["t"], version=1, timestamp=2)),
        "00100001670003742e2a",
        "0000" + "02" + "0274" + "0000000000000001" + "0000000000000002" + "00",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("record", "key", "value"), CASES)
def test_bytes(record: ConsumerRecord, key: str, value: str) -> None:
    assert encode(record) == (bytes.fromhex(key), bytes.fromhex(value))
    assert decode(bytes.fromhex(key), bytes.fromhex(value)) == record
    gone = record._replace(value=None)
    assert encode(gone) == (bytes.fromhex(key), None)
    assert decode(bytes.fromhex(key), None) == gone


def test_the_obsolete_kind_is_known_by_its_key() -> None:
    key = bytes.fromhex("0004000167")
    found = decode(key, b"anything")
    assert isinstance(found, ConsumerRecord)
    assert (found.kind, found.group) == (Kind.TOPICS, "g")
    assert encode(found._replace(value=None)) == (key, None)


@pytest.mark.parametrize("value", ["", "00", "0001000000030000", "0000"])
def test_damaged_values_are_refused(value: str) -> None:
    with pytest.raises(WireError):
        decode(bytes.fromhex("0003000167"), bytes.fromhex(value))
