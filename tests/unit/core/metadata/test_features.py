"""What a release reads, and what it writes at each level that the cluster may have agreed on."""

from uuid import UUID

import pytest

from rookery.core.errors import UnsupportedVersionError
from rookery.core.metadata import records as r
from rookery.core.metadata import requests as q
from rookery.core.metadata.codec import RecordError, decode, encode
from rookery.core.metadata.features import METADATA_VERSION, RELEASE
from rookery.core.metadata.image import EMPTY
from tests.unit.controller.releases import LEVEL, NEXT, OLD, RAISED, stored_version

TOPIC = r.TopicRecord("t", UUID(int=1))
BROKER = r.RegisterBrokerRecord(1, UUID(int=1))


def test_this_release_writes_at_each_of_its_levels_what_it_can_read() -> None:
    levels = RELEASE.levels
    assert levels.min_version <= levels.max_version
    least, most = RELEASE.rpc_range
    for level in range(levels.min_version, levels.max_version + 1):
        assert least <= RELEASE.rpc_version(level) <= most
        assert stored_version(encode(TOPIC, level)) <= RELEASE.newest(r.TopicRecord)


def test_at_the_old_level_the_next_release_writes_what_the_old_one_does() -> None:
    for record in (TOPIC, BROKER, r.NoOpRecord()):
        assert encode(record, LEVEL, NEXT) == encode(record, LEVEL, OLD)
        assert decode(encode(record, LEVEL, NEXT), OLD) == record
    assert NEXT.rpc_version(LEVEL) == OLD.rpc_version(LEVEL)
    assert NEXT.level(EMPTY) == OLD.level(EMPTY), "before it knows the level, a node writes what all can read"


def test_at_the_new_level_it_writes_what_only_the_next_release_reads() -> None:
    value = encode(TOPIC, RAISED, NEXT)
    assert stored_version(value) == 1
    assert decode(value, NEXT) == TOPIC
    assert NEXT.rpc_version(RAISED) == OLD.rpc_version(LEVEL) + 1
    with pytest.raises(RecordError, match=r"TopicRecord has version 1.*upgrade this node"):
        decode(value, OLD)


def test_everything_that_was_ever_written_can_be_read() -> None:
    assert decode(encode(TOPIC, LEVEL, OLD), NEXT) == TOPIC


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (r.ProducerIdsRecord(1, 1, 5), "ProducerIdsRecord needs"),
        (r.RegisterBrokerRecord(1, UUID(int=1), rack="east"), "RegisterBrokerRecord with rack needs"),
    ],
)
def test_what_the_level_does_not_have_is_not_written(record: r.Record, what: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"{what} {METADATA_VERSION} {RAISED}, the cluster is at {LEVEL}"):
        encode(record, LEVEL, NEXT)
    assert decode(encode(record, RAISED, NEXT), NEXT) == record


def test_requests_that_came_later_are_not_sent_before() -> None:
    NEXT.check_request(q.HeartbeatRequest, LEVEL)
    NEXT.check_request(q.AllocateProducerIdsRequest, RAISED)
    with pytest.raises(UnsupportedVersionError, match=f"AllocateProducerIdsRequest needs {METADATA_VERSION} {RAISED}"):
        NEXT.check_request(q.AllocateProducerIdsRequest, LEVEL)
