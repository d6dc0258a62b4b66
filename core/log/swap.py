"""Replacing segments by compacted ones, so that a crash at any step leaves the old ones or the new ones.

    1. the cleaner writes `<base>.log.cleaned` and its indexes and syncs them and the folder
    2. `*.cleaned` are renamed to `*.swap`
    3. the old segments are renamed to `*.deleted`
    4. `*.swap` lose their ending

A crash before the end of step 2 leaves at least one `.cleaned` file: everything new is thrown away. After
it, steps 3 and 4 are finished when the log is opened.
"""

from collections.abc import Sequence

from rookery.core.disk import Disk
from rookery.core.log import names
from rookery.core.log.scan import Invalid, headers
from rookery.core.log.segment import Segment


def swap_in(disk: Disk, folder: str, base: int, old: Sequence[Segment]) -> None:
    """Put the segment whose `.cleaned` files stand at `base` in the place of `old`.

    Renames only, so that it may run on the event loop; the file system keeps their order.
    """
    _rename_all(disk, folder, base, names.CLEANED, names.SWAP)
    for segment in old:
        segment.rename_files(names.DELETED)
    _rename_all(disk, folder, base, names.SWAP, "")


def finish_swaps(disk: Disk, folder: str, listing: list[str]) -> list[str]:
    """Bring a folder out of any half-done replacement or deletion; returns the names that are there then."""
    leftovers = (names.DELETED, names.CLEANED, names.SWAP, ".tmp")
    if not any(name.endswith(leftovers) for name in listing):
        return listing
    if any(name.endswith(names.CLEANED) for name in listing):
        doomed = [name for name in listing if name.endswith(leftovers)]
    else:
        doomed = [name for name in listing if name.endswith((names.DELETED, ".tmp"))]
        for base in _bases(listing, names.LOG + names.SWAP):
            _finish_swap(disk, folder, base, listing)
    for name in doomed:
        if disk.exists(f"{folder}/{name}"):
            disk.remove(f"{folder}/{name}")
    disk.sync_dir(folder)
    return disk.list(folder)


def _finish_swap(disk: Disk, folder: str, base: int, listing: list[str]) -> None:
    """The old segments inside the range of a swapped one go, then it takes its place."""
    path = names.segment_file(folder, base, names.LOG + names.SWAP)
    end = _end_of(disk, path, base)
    for old in _bases(listing, names.LOG):
        if base <= old < end:
            Segment(disk, folder, old, 0, 0).remove_files()
    _rename_all(disk, folder, base, names.SWAP, "")


def _end_of(disk: Disk, path: str, base: int) -> int:
    file = disk.open(path)
    end = base + 1
    try:
        for _, header in headers(file, 0, file.size()):
            end = header.next_offset
    except Invalid:
        pass  # the batches that follow are reported when the segment is read
    finally:
        file.close()
    return end


def _bases(listing: list[str], suffix: str) -> list[int]:
    return sorted(base for name in listing if (base := names.base_offset_of(name, suffix)) is not None)


def _rename_all(disk: Disk, folder: str, base: int, old: str, new: str) -> None:
    """Rename every file of a segment; the batches go last, for their name is what counts."""
    for kind in reversed(names.OF_A_SEGMENT):
        path = names.segment_file(folder, base, kind)
        if disk.exists(path + old):
            disk.rename(path + old, path + new)
