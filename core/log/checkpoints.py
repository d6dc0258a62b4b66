"""Small files beside the logs: the offset checkpoints of a log folder, and the format that other checkpoints share.

The format is Kafka's CheckpointFile, version 0: a version line, a count line, then one entry a line. There is no
checksum. Each file is replaced atomically (temporary file, fsync, rename, fsync of the folder), so anything that does
not parse is damage and never a torn write. Coroutines go through aiofiles and are for the event loop; the plain
functions are for threads, the metadata log and start-up.
"""

from collections.abc import Iterable, Mapping

from rookery.core.disk import Disk, replace_file
from rookery.core.types import TopicPartition

VERSION = "0"


class CheckpointDamaged(Exception):
    """A checkpoint file that does not parse: the disk changed it, or a person did."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"checkpoint {path} cannot be read: {why}")
        self.path = path


def encode_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in (VERSION, str(len(entries)), *entries)).encode()


def decode_lines(path: str, content: bytes, fields: int) -> list[list[str]]:
    """The entries, each split into exactly `fields` parts."""
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise CheckpointDamaged(path, "it is not text") from None
    if len(lines) < 2 or lines[0] != VERSION:
        raise CheckpointDamaged(path, f"it does not start with version {VERSION} and a count")
    if lines[1] != str(len(lines) - 2):
        raise CheckpointDamaged(path, f"it announces {lines[1]!r} entries and has {len(lines) - 2}")
    entries = [line.split() for line in lines[2:]]
    for number, parts in enumerate(entries, start=3):
        if len(parts) != fields:
            raise CheckpointDamaged(path, f"line {number} has {len(parts)} fields instead of {fields}")
    return entries


def parse_number(path: str, text: str) -> int:
    """A non-negative decimal number of at most 64 bits."""
    if not (text.isascii() and text.isdigit()) or int(text) >= 1 << 63:
        raise CheckpointDamaged(path, f"{text!r} is not an offset, epoch or partition")
    return int(text)


RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode_lines(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items())


def decode_offsets(path: str, content: bytes) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, parse_number(path, partition)): parse_number(path, offset)
        for topic, partition, offset in decode_lines(path, content, 3)
    }


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The offsets in the file; none if there is no file; `CheckpointDamaged` if it cannot be trusted."""
    return decode_offsets(path, disk.read(path)) if disk.exists(path) else {}


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    replace_file(disk, path, encode_offsets(offsets))


async def save_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    await disk.replace(path, encode_offsets(offsets))
