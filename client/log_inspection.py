"""Files of a partition, read where they lie: what segments and indexes hold, and whether they are whole.

For a folder that no node works in, or a copy of one. Nothing is changed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rookery.core.disk import FileDisk
from rookery.core.errors import KafkaError
from rookery.core.log.indexes import OFFSET_ENTRY, TIME_ENTRY
from rookery.core.log.scan import Invalid, headers, verified
from rookery.core.wire.batch import BatchHeader
from rookery.core.wire.compression import Codec
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import Record, read_records

SEGMENT = re.compile(r"\d{20}")
PARTITION = re.compile(r".+-\d+")
NO_LIMIT = 2**63 - 1


class Damage(NamedTuple):
    """Something that is not as it should be."""

    file: str
    position: int
    why: str


class InspectionError(Exception):
    """The path is not what was asked for."""


def base_offset_of(path: Path) -> int:
    name = path.name.partition(".")[0]
    if not SEGMENT.fullmatch(name):
        raise InspectionError(f"{path}: a file of a segment is named by 20 digits, like {'0' * 20}.log")
    return int(name)


def batch_rows(path: Path) -> Iterator[dict[str, Any]]:
    """One row a batch, by headers alone; ends with `Invalid` where no batch can be."""
    with _opened(path) as file:
        for position, header in headers(file, 0, file.size()):
            yield {
                "base-offset": header.base_offset,
                "last-offset": header.last_offset,
                "count": header.record_count,
                "position": position,
                "size": header.size,
                "max-timestamp": header.max_timestamp,
                "codec": _codec(header),
                "leader-epoch": header.partition_leader_epoch,
                "producer-id": header.producer_id,
                "producer-epoch": header.producer_epoch,
                "base-sequence": header.base_sequence,
                "transactional": header.transactional,
                "control": header.control,
            }


def records_of(path: Path) -> Iterator[tuple[BatchHeader, Record]]:
    """Every record of a segment, each batch with its checksum checked."""
    with _opened(path) as file:
        for position, header in verified(file, base_offset_of(path), file.size(), NO_LIMIT):
            data = file.pread(header.size, position)
            for record in read_records(data, 0):
                yield header, record


def _codec(header: BatchHeader) -> str:
    try:
        return Codec(header.codec).name.lower()
    except ValueError:
        return f"unknown ({header.codec})"


def offset_entries(path: Path) -> Iterator[tuple[int, int]]:
    """Offset and position of each entry of an ``.index``, without the zeros that Kafka allocates at its end."""
    base, content = base_offset_of(path), path.read_bytes()
    for at in range(0, len(content) - OFFSET_ENTRY + 1, OFFSET_ENTRY):
        offset = int.from_bytes(content[at : at + 4], "big", signed=True)
        position = int.from_bytes(content[at + 4 : at + 8], "big", signed=True)
        if at and not offset and not position:
            return
        yield base + offset, position


def time_entries(path: Path) -> Iterator[tuple[int, int]]:
    """Timestamp and offset of each entry of a ``.timeindex``."""
    base, content = base_offset_of(path), path.read_bytes()
    for at in range(0, len(content) - TIME_ENTRY + 1, TIME_ENTRY):
        timestamp = int.from_bytes(content[at : at + 8], "big", signed=True)
        offset = int.from_bytes(content[at + 8 : at + 12], "big", signed=True)
        if at and not offset and not timestamp:
            return
        yield timestamp, base + offset


def partitions_in(folder: Path) -> list[Path]:
    """The folder itself if it holds segments, else the partitions in it."""
    if not folder.is_dir():
        raise InspectionError(f"{folder}: there is no such folder")
    if any(SEGMENT.fullmatch(path.stem) for path in folder.glob("*.log")):
        return [folder]
    found = sorted(path for path in folder.iterdir() if path.is_dir() and PARTITION.fullmatch(path.name))
    if not found:
        raise InspectionError(f"{folder}: it holds neither segments nor partitions (folders like orders-0)")
    return found


@dataclass(slots=True)
class PartitionReport:
    """What a check of one partition found."""

    name: str
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    first: int = -1
    next: int = -1
    gaps: int = 0
    """Places where offsets are left out: compaction does that, and so does deletion of a damaged tail."""
    damage: tuple[Damage, ...] = ()

    def row(self) -> dict[str, Any]:
        return {
            "partition": self.name,
            "segments": self.segments,
            "batches": self.batches,
            "bytes": self.bytes,
            "first-offset": self.first,
            "next-offset": self.next,
            "gaps": self.gaps,
            "damage": len(self.damage),
        }


def check_partition(folder: Path) -> PartitionReport:
    """Read every byte: checksums and counts, offsets that rise over all segments, indexes that point at batches."""
    report = PartitionReport(folder.name)
    damage: list[Damage] = []
    next_offset = -1
    for path in sorted(path for path in folder.glob("*.log") if SEGMENT.fullmatch(path.stem)):
        base = base_offset_of(path)
        report.segments += 1
        report.bytes += path.stat().st_size
        if report.first < 0:
            report.first = next_offset = base
        if base < next_offset:
            damage.append(Damage(str(path), 0, f"it starts at {base}, but the segment before it ends at {next_offset}"))
        elif base > next_offset:
            report.gaps += 1
        next_offset = max(next_offset, base)
        starts: dict[int, BatchHeader] = {}
        try:
            with _opened(path) as file:
                for position, header in verified(file, base, file.size(), NO_LIMIT):
                    if header.base_offset < next_offset:
                        raise Invalid(position, f"offset {header.base_offset} stands where {next_offset} is next")
                    report.gaps += header.base_offset > next_offset
                    report.batches += 1
                    next_offset = header.next_offset
                    starts[position] = header
                    _readable(file, position, header)
        except Invalid as error:
            damage.append(Damage(str(path), error.position, error.why))
            next_offset = max(next_offset, base)
            continue  # what the indexes say of the rest cannot be judged
        damage += _check_indexes(path, starts, next_offset)
    report.next = next_offset
    report.damage = tuple(damage)
    return report


def _readable(file: Any, position: int, header: BatchHeader) -> None:
    try:
        count = sum(1 for _ in read_records(file.pread(header.size, position), 0))
    except (KafkaError, WireError, ValueError) as error:
        raise Invalid(position, f"the records of the batch at offset {header.base_offset}: {error}") from error
    if count != header.record_count:
        raise Invalid(position, f"the batch says {header.record_count} records and holds {count}")


def _check_indexes(path: Path, starts: dict[int, BatchHeader], next_offset: int) -> list[Damage]:
    found = []
    index, times = path.with_suffix(".index"), path.with_suffix(".timeindex")
    if index.exists():
        before = -1
        for offset, position in offset_entries(index):
            header = starts.get(position)
            if header is None or not header.base_offset <= offset < next_offset or offset <= before:
                why = f"the entry for offset {offset} points at no batch that has it"
                found.append(Damage(str(index), position, why))
                break
            before = offset
    if times.exists():
        last = (-2, -1)
        for timestamp, offset in time_entries(times):
            if offset >= next_offset or (timestamp, offset) <= last:
                found.append(Damage(str(times), -1, f"the entry of time {timestamp} names offset {offset}"))
                break
            last = (timestamp, offset)
    return found


class _opened:
    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InspectionError(f"{path}: there is no such file")
        self._file = FileDisk().open(str(path))

    def __enter__(self) -> Any:
        return self._file

    def __exit__(self, *_: object) -> None:
        self._file.close()
