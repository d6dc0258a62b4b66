"""Checkpoints and property files: Kafka's text, read back exactly or refused."""

from pathlib import Path
from uuid import UUID

import pytest

from rookery.core.disk import FileDisk
from rookery.core.log import EpochStart
from rookery.core.log.checkpoints import (
    CheckpointDamaged,
    decode_offsets,
    encode_offsets,
    read_offsets,
    save_offsets,
    write_offsets,
)
from rookery.core.log.epochs import decode_epochs, encode_epochs
from rookery.core.log.ownership import MetaProperties, PartitionMetadata, take_marker, write_marker
from rookery.core.types import TopicPartition
from tests.unit.core.log.sample import disk

OFFSETS = {TopicPartition("orders", 0): 2**40, TopicPartition("a.b_c-d", 12): 0}
SOME_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.row(36)
def test_offset_checkpoints_are_kafkas_version_0() -> None:
    content = b"0\n2\norders 0 1099511627776\na.b_c-d 12 0\n"
    assert encode_offsets(OFFSETS) == content
    assert decode_offsets("x", content) == OFFSETS
    assert decode_offsets("x", b"0\n0\n") == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n2\norders 0 1\n",
        b"0\n1\norders 0 1\norders 1 1\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 1 2\n",
        b"0\n1\norders 0 -1\n",
        b"0\n1\norders x 1\n",
        b"0\n1\norders 0 9223372036854775808\n",
        b"0\n1\norders 0 \xff\n",
        b"0\nx\norders 0 1\n",
    ],
)
def test_offset_checkpoints_that_do_not_parse_are_refused(content: bytes) -> None:
    with pytest.raises(CheckpointDamaged, match="checkpoint data/points cannot be read"):
        decode_offsets("data/points", content)


def test_epoch_checkpoints_are_kafkas_version_0_and_must_ascend() -> None:
    entries = [EpochStart(0, 0), EpochStart(3, 17)]
    assert encode_epochs(entries) == b"0\n2\n0 0\n3 17\n"
    assert decode_epochs("x", b"0\n2\n0 0\n3 17\n") == entries
    for content in (b"0\n2\n3 0\n3 17\n", b"0\n2\n1 17\n3 17\n", b"0\n2\n3 18\n1 20\n"):
        with pytest.raises(CheckpointDamaged, match="does not come after"):
            decode_epochs("x", content)


@pytest.mark.invariant("S7")
async def test_checkpoints_are_read_and_written_on_and_off_the_loop(tmp_path: Path) -> None:
    real, path = FileDisk(), str(tmp_path / "points")
    assert read_offsets(real, path) == {}
    await save_offsets(real, path, OFFSETS)
    assert read_offsets(real, path) == OFFSETS
    write_offsets(real, path, {})
    assert read_offsets(real, path) == {}
    assert [file.name for file in tmp_path.iterdir()] == ["points"]


def test_meta_properties_say_whose_a_folder_is() -> None:
    on = disk()
    on.mkdir("data")
    assert MetaProperties.read(on, "data") is None
    meta = MetaProperties("cluster-1", 7, SOME_ID)
    meta.write(on, "data")
    assert on.read("data/meta.properties").splitlines() == [
        b"version=1", b"cluster.id=cluster-1", b"node.id=7", b"directory.id=ABEiM0RVZneImaq7zN3u_w",
    ]  # fmt: skip
    assert MetaProperties.read(on, "data") == meta
    kafkas = b"#Mon Nov 16\nversion=1\nnode.id=7\ndirectory.id=ABEiM0RVZneImaq7zN3u_w\ncluster.id=c\n"
    on.edit("data/meta.properties", kafkas)
    assert MetaProperties.read(on, "data") == MetaProperties("c", 7, SOME_ID)
    for content in (
        b"", b"version=0\nbroker.id=1\n", b"version=1\ncluster.id=c\nnode.id=x\ndirectory.id=ABEiM0RVZneImaq7zN3u_w\n",
        b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=short\n", b"\xff", b"version=1\nnode.id=1\n",
    ):  # fmt: skip
        on.edit("data/meta.properties", content)
        with pytest.raises(CheckpointDamaged):
            MetaProperties.read(on, "data")


async def test_partition_metadata_names_the_topics_id() -> None:
    on = disk()
    on.mkdir("data/orders-0")
    assert PartitionMetadata.read(on, "data/orders-0") is None
    PartitionMetadata(SOME_ID).write(on, "data/orders-0")
    assert on.read("data/orders-0/partition.metadata") == b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    await PartitionMetadata(SOME_ID).save(on, "data/orders-0")
    assert PartitionMetadata.read(on, "data/orders-0") == PartitionMetadata(SOME_ID)
    for content in (b"version: 1\ntopic_id: ABEiM0RVZneImaq7zN3u_w", b"version: 0", b"version: 0\ntopic_id: ?"):
        on.edit("data/orders-0/partition.metadata", content)
        with pytest.raises(CheckpointDamaged):
            PartitionMetadata.read(on, "data/orders-0")


@pytest.mark.invariant("S6")
def test_the_marker_holds_the_broker_epoch_and_is_taken_once() -> None:
    on = disk()
    on.mkdir("data")
    assert take_marker(on, "data") is None
    write_marker(on, "data", 12)
    assert on.read("data/.kafka_cleanshutdown") == b'{"version": 0, "brokerEpoch": 12}'
    assert take_marker(on, "data") == 12
    assert take_marker(on, "data") is None
    wrong = (b"", b"{}", b'{"version": 1, "brokerEpoch": 1}', b"[]", b"\xff", b'{"version":0,"brokerEpoch":"x"}')
    for content in wrong:
        write_marker(on, "data", 12)
        on.edit("data/.kafka_cleanshutdown", content)
        assert take_marker(on, "data") is None
        assert not on.exists("data/.kafka_cleanshutdown")
