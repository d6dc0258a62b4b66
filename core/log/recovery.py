"""Opening the folder of a log: finish what was interrupted, find the segments, check what is not durable."""

from dataclasses import dataclass
from itertools import pairwise

from rookery.core.disk import Disk
from rookery.core.event_logging import get_logger
from rookery.core.log import names
from rookery.core.log.epochs import LeaderEpochs, checkpointed_epochs, confirmed, note_epoch
from rookery.core.log.errors import LogCorrupt, LogDirFailed
from rookery.core.log.scan import MAX_RELATIVE_OFFSET, Invalid, dense, verified
from rookery.core.log.scrub import check_closed
from rookery.core.log.segment import LogConfig, Segment
from rookery.core.log.swap import finish_swaps

log = get_logger("core.log")


@dataclass(slots=True)
class Found:
    """A log as it was found, ready to be used."""

    segments: list[Segment]
    start_offset: int
    end_offset: int
    recovery_point: int
    epochs: LeaderEpochs | None = None
    names_changed: bool = False
    sparse: bool = False


def open_segments(
    disk: Disk,
    folder: str,
    config: LogConfig,
    clean: bool,
    recovery_point: int | None,
    log_start_offset: int,
    now_ms: int,
    suspect: bool,
    sparse: bool,
    listing: list[str] | None = None,
) -> Found:
    """See `Log.open`."""
    segments: list[Segment] = []
    try:
        listing = _listing(disk, folder) if listing is None else finish_swaps(disk, folder, listing)
        segments += _segments(disk, folder, config, listing)
        marked = names.SPARSE in listing
        durable = recovery_point if recovery_point and recovery_point > log_start_offset else 0
        point = None if recovery_point is None else durable
        checkpointed = names.LEADER_EPOCHS in listing
        found = _checked(disk, folder, segments, clean, point, suspect, sparse or marked, checkpointed)
        if not segments or found.end_offset < log_start_offset:
            found = _started_at(disk, folder, config, segments, log_start_offset, now_ms, found.sparse)
        if found.sparse and not marked:
            mark_sparse(disk, folder)  # the topic may cease to be compacted; what is missing stays so
            found.names_changed = True
    except OSError as error:
        raise LogDirFailed("opening", folder, error) from error
    finally:
        for segment in segments:
            segment.release()
    found.start_offset = max(log_start_offset, found.segments[0].base_offset)
    if found.epochs is not None:
        if found.segments[0].base_offset == found.end_offset:
            found.epochs.clear()  # the checkpoint may be older than the removed batches, and none can confirm it
        found.epochs.truncate_from_start(found.start_offset)
    return found


def _listing(disk: Disk, folder: str) -> list[str]:
    """What is in a folder after what a crash left half done was finished."""
    if not disk.exists(folder):
        disk.mkdir(folder)
        disk.sync_dir(folder.rpartition("/")[0])
    return finish_swaps(disk, folder, disk.list(folder))


def _segments(disk: Disk, folder: str, config: LogConfig, listing: list[str]) -> list[Segment]:
    """The segments in a folder, oldest first."""
    bases = sorted(base for name in listing if (base := names.base_offset_of(name)) is not None)
    interval = config.index_interval_bytes
    return [
        Segment(disk, folder, base, disk.size(names.segment_file(folder, base, names.LOG)), interval)
        for base in bases
    ]


def mark_sparse(disk: Disk, folder: str) -> None:
    """Keep the fact that compaction may have taken records. Durable when the folder has been synced."""
    disk.open(f"{folder}/{names.SPARSE}", create=True).close()


def lay_first_segment(disk: Disk, folder: str) -> None:
    """Make the empty segment with which a log begins. Durable when the folder has been synced."""
    disk.open(names.segment_file(folder, 0, names.LOG), create=True).close()


def first_segment(disk: Disk, folder: str, config: LogConfig, now_ms: int) -> Found:
    """The content of a folder in which nothing was done since `lay_first_segment`."""
    segment = Segment(disk, folder, 0, 0, config.index_interval_bytes)
    segment.created_ms = now_ms
    return Found([segment], 0, 0, 0, LeaderEpochs())


def _checked(
    disk: Disk,
    folder: str,
    segments: list[Segment],
    clean: bool,
    recovery_point: int | None,
    suspect: bool,
    sparse: bool,
    checkpointed: bool,
) -> Found:
    """Find the end of the log, and unless it was closed in order, check all that may not be durable."""
    if not segments:
        if recovery_point:
            raise LogCorrupt(folder, 0, f"there are no segments, but offsets up to {recovery_point} were durable")
        return Found(segments, 0, 0, 0, sparse=sparse)
    doubtful = len(segments) - 1 if clean else _first_beyond(segments, recovery_point or 0)
    if not suspect:
        for segment, after in pairwise(segments[: doubtful + 1]):
            segment.sparse = sparse
            check_closed(segment, after.base_offset)
    epochs = None
    if not clean:
        first = 0 if suspect else doubtful
        epochs, gaps = _recovered(disk, folder, segments, first, recovery_point, sparse, checkpointed)
        sparse = sparse or gaps
    for segment in segments:
        segment.sparse = sparse
    last = segments[-1]
    end = last.next_offset
    last.release()
    if recovery_point is not None and end < recovery_point:
        raise LogCorrupt(last.log_path, last.size, f"it ends at {end}, but {recovery_point} was durable")
    point = end if clean else min(recovery_point or 0, end)
    return Found(segments, segments[0].base_offset, end, point, epochs, names_changed=not clean, sparse=sparse)


def _first_beyond(segments: list[Segment], point: int) -> int:
    """The number of the first segment that reaches beyond the recovery point."""
    return next((i for i, after in enumerate(segments[1:]) if after.base_offset > point), len(segments) - 1)


def _recovered(
    disk: Disk,
    folder: str,
    segments: list[Segment],
    first: int,
    recovery_point: int | None,
    sparse: bool,
    has_checkpoint: bool,
) -> tuple[LeaderEpochs | None, bool]:
    """Check every segment that reaches beyond the recovery point; cut the log at the first invalid batch.

    Nothing is changed on disk before it is clear that all damage lies in what was not durable. Gaps there are
    accepted, because batches that a leader sent after compaction have some; the result reports whether there are any.
    No epochs are returned where those of the segments before are not known: `Log.epochs` reads them from the batches.
    """
    point = recovery_point or 0
    dense_below = 0 if sparse else point
    gaps = False
    checkpointed = checkpointed_epochs(disk, folder) if has_checkpoint else None
    trusted = first if checkpointed is None else _first_beyond(segments, point)
    epochs = LeaderEpochs(checkpointed or ())
    epochs.truncate_from_end(segments[trusted].base_offset)
    for number, segment in enumerate(segments[first:], start=first):
        limit = segments[number + 1].base_offset if number + 1 < len(segments) else None
        damage, has_gaps = _scanned(segment, limit, epochs if number >= trusted else LeaderEpochs(), dense_below)
        damage, gaps = damage or _lost_tail(segment, limit), gaps or has_gaps
        end = segment.next_offset
        if damage is not None and limit is not None and limit <= point:
            segment.set_damaged(LogCorrupt(segment.log_path, damage.position, damage.why))
            continue
        if damage is not None:
            if end < point or (recovery_point is None and number < len(segments) - 1):
                raise LogCorrupt(segment.log_path, damage.position, damage.why)
            _cut(disk, segments, number, damage)
            break
        _save_indexes(disk, segment)
    epochs.changed = True
    known = trusted == 0 or (checkpointed is not None and confirmed(epochs, segments, segments[trusted].base_offset))
    return epochs if known else None, gaps


def _scanned(
    segment: Segment, limit: int | None, epochs: LeaderEpochs, dense_below: int
) -> tuple[Invalid | None, bool]:
    """Check each byte and gather the indexes and epochs on the way; what is wrong, and whether there are gaps."""
    segment.start_indexes()
    base, gaps = segment.base_offset, False
    expected = base
    if not segment.size:
        return None, False
    try:
        for position, header in dense(verified(segment.file, base, segment.size, limit), base, dense_below):
            gaps = gaps or header.base_offset != expected
            expected = header.next_offset
            segment.note(position, header)
            note_epoch(epochs, header)
    except Invalid as damage:
        return damage, gaps
    return None, gaps


def _lost_tail(segment: Segment, limit: int | None) -> Invalid | None:
    """A segment begins where the one before it ends, so a gap between two means that a tail was lost."""
    end = segment.next_offset
    if limit is None or end == limit or limit - segment.base_offset > MAX_RELATIVE_OFFSET:
        return None
    return Invalid(segment.size, f"offsets {end} to {limit}, where the next segment starts, are missing")


def _cut(disk: Disk, segments: list[Segment], number: int, damage: Invalid) -> None:
    """End the log at the damage: the segments behind it go first, from the last one back."""
    torn = segments[number]
    log.warning(
        "log.tail.dropped", file=torn.log_path, position=damage.position, of=torn.size, why=damage.why,
        next_offset=torn.next_offset, segments_dropped=len(segments) - number - 1,
    )  # fmt: skip
    for segment in reversed(segments[number + 1 :]):
        segment.release()
        segment.remove_files()
    del segments[number + 1 :]
    torn.cut(damage.position)
    _save_indexes(disk, torn)


def _save_indexes(disk: Disk, segment: Segment) -> None:
    if not segment.size:
        segment.release()  # an empty segment has no files of indexes, as when it was begun; old ones fit nothing
        return
    segment.seal()
    for write in segment.index_writes():
        write.run(disk, sync=False)
    segment.indexes_saved()
    segment.release()


def _started_at(
    disk: Disk, folder: str, config: LogConfig, segments: list[Segment], offset: int, now_ms: int, sparse: bool
) -> Found:
    """An empty log at `offset`: a new one, or one that lost everything behind its start."""
    epochs = LeaderEpochs() if segments else None
    for segment in reversed(segments):
        segment.release()
        segment.remove_files()
    created = Segment.create(disk, folder, offset, config.index_interval_bytes, now_ms, sparse=sparse)
    created.release()
    disk.sync_dir(folder)
    if epochs is not None:
        epochs.changed = True
    return Found([created], offset, offset, offset, epochs, sparse=sparse)
