"""Small files beside the logs: offset checkpoints of a log folder and the epochs of a partition.

Each is replaced atomically (temporary file, fsync, rename, fsync of the folder). Coroutines go through
aiofiles and are for the event loop; the plain functions are for threads, the metadata log and start-up.
"""

from collections.abc import Mapping
from itertools import pairwise

from rookery.core.disk import Disk, replace_file
from rookery.core.log.checkpoint_file import CheckpointDamaged, decode, encode, number
from rookery.core.log.epochs import EpochStart
from rookery.core.types import TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items())


def decode_offsets(path: str, content: bytes) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, number(path, partition)): number(path, offset)
        for topic, partition, offset in decode(path, content, 3)
    }


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The offsets in the file; none if there is no file; `CheckpointDamaged` if it cannot be trusted."""
    return decode_offsets(path, disk.read(path)) if disk.exists(path) else {}


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    replace_file(disk, path, encode_offsets(offsets))


async def save_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    await disk.replace(path, encode_offsets(offsets))


def encode_epochs(entries: list[EpochStart]) -> bytes:
    return encode(f"{epoch} {start}" for epoch, start in entries)


def decode_epochs(path: str, content: bytes) -> list[EpochStart]:
    entries = [EpochStart(number(path, e), number(path, s)) for e, s in decode(path, content, 2)]
    for before, after in pairwise(entries):
        if before.epoch >= after.epoch or before.start_offset >= after.start_offset:
            raise CheckpointDamaged(path, f"{after} does not come after {before}")
    return entries
