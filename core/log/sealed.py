"""What can be told of a closed segment without reading it: a handful of small reads, whatever its size.

The last entry of the offset index pins a batch to a byte: nothing can have been taken out of the file, or put
into it, before that byte. From there a short walk leads to the end, which must be the end of the file and where the
next segment starts. Only where something does not fit are all batch headers of the segment walked, which tells a
damaged index, which is rebuilt when it is used, from damaged batches. Checksums are left to the scrubber.
"""

import errno

from rookery.core.log.errors import LogCorrupt
from rookery.core.log.scan import Invalid, dense, headers
from rookery.core.log.segment import Segment


def check_closed(segment: Segment, next_base: int) -> None:
    """Set the segment's damage, if there is any to be seen. Blocks."""
    try:
        if not _ends_as_indexed(segment, next_base):
            _walk(segment, 0, segment.base_offset, next_base)
    except Invalid as damage:
        segment.set_damaged(LogCorrupt(segment.log_path, damage.position, damage.why))
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        segment.set_damaged(LogCorrupt(segment.log_path, 0, "the device cannot read it"))
    finally:
        segment.release()


def _ends_as_indexed(segment: Segment, next_base: int) -> bool:
    """Whether the first batch, the last entry of the index and all behind it fit each other and the next segment."""
    last = segment.last_indexed()
    try:
        if last is None:
            return False
        _, first = next(headers(segment.file, 0, segment.size))
        _, indexed = next(headers(segment.file, last.position, segment.size))
        if indexed.last_offset != last.last_offset or (first.base_offset != segment.base_offset and not segment.sparse):
            return False
        _walk(segment, last.position, indexed.base_offset, next_base)
    except (Invalid, StopIteration):
        return False
    return True


def _walk(segment: Segment, position: int, next_offset: int, next_base: int) -> None:
    """From a batch that begins with `next_offset` to the end of the file. Raises `Invalid` where it does not fit."""
    found = headers(segment.file, position, segment.size)
    for at, header in found if segment.sparse else dense(found, next_offset):
        if header.base_offset < next_offset or header.next_offset > next_base:
            raise Invalid(at, f"offset {header.base_offset} stands where {next_offset} is next")
        next_offset = header.next_offset
    if next_offset != next_base and not segment.sparse:
        raise Invalid(segment.size, f"offsets {next_offset} to {next_base}, where the next segment starts, are missing")
