"""What a log is after a crash: the longest valid prefix, and never less than what was durable."""

import random

import pytest

from rookery.core.log import Log, LogConfig, LogCorrupt, names
from rookery.core.log.checkpoints import CheckpointDamaged, read_offsets, write_offsets
from rookery.core.testing.disk import MemoryDisk, PowerCut
from rookery.core.types import TopicPartition
from rookery.core.wire.records import Record
from tests.unit.core.log.sample import FOLDER, batch, disk, everything, opened

SMALL = LogConfig(segment_bytes=250, index_interval_bytes=50)
VALUES = [[b"a", b"bb"], [b"ccc"], [b"dddd", b"e", b"f"], [b"g" * 20], [b"h"]]


def written(on: MemoryDisk, config: LogConfig = SMALL, epochs: tuple[int, ...] = (1, 1, 2, 2, 5)) -> list[Record]:
    """A log of five batches in two segments, closed in order; its records."""
    log = opened(on, config)
    for values, epoch in zip(VALUES, epochs, strict=True):
        log.append_as_leader(batch(values), epoch, 0)
    records = everything(log)
    assert len(log.segments) == 2 or config is not SMALL
    log.close()
    return records


def prefix_of(records: list[Record], end: int) -> list[Record]:
    return [record for record in records if record.offset < end]


@pytest.mark.invariant("S2")
@pytest.mark.row(34)
def test_a_file_cut_at_any_byte_of_its_last_batch_is_the_log_without_it() -> None:
    whole = disk()
    records = written(whole, LogConfig())
    path = f"{FOLDER}/{0:020d}.log"
    content = whole.read(path)
    size = len(batch([b"h"]))
    for cut in range(len(content) - size, len(content)):
        on = disk()
        written(on, LogConfig())
        on.edit(path, content[:cut])
        log = opened(on, LogConfig())
        assert everything(log) == prefix_of(records, 7)
        assert log.append_as_leader(batch([b"next"]), 6, 0).base_offset == 7
        log.close()
        assert len(everything(opened(on, LogConfig(), clean=True))) == 8


@pytest.mark.invariant("S1", "S2")
@pytest.mark.row(34)
def test_a_flipped_byte_in_what_was_not_durable_ends_the_log_before_its_batch() -> None:
    on = disk()
    records = written(on)
    paths = [f"{FOLDER}/{name}" for name in on.list(FOLDER) if name.endswith(".log")]
    for path in paths:
        content = on.read(path)
        for at in range(len(content)):
            damaged = _copy_of(on)
            damaged.edit(path, _flipped(content, at))
            log = opened(damaged, SMALL)
            if _unchecked(content, at, last=path == paths[-1]):
                assert log.end_offset >= records[-1].offset + 1
                continue
            assert everything(log) == prefix_of(records, log.end_offset), at
            assert log.end_offset <= records[-1].offset, at


@pytest.mark.invariant("S3")
def test_a_flipped_byte_in_what_was_durable_is_reported_and_nothing_is_changed() -> None:
    on = disk()
    written(on)
    path = next(f"{FOLDER}/{name}" for name in reversed(on.list(FOLDER)) if name.endswith(".log"))
    content = on.read(path)
    for at in range(len(content)):
        damaged = _copy_of(on)
        damaged.edit(path, _flipped(content, at))
        before = {name: damaged.read(f"{FOLDER}/{name}") for name in damaged.list(FOLDER)}
        if not _unchecked(content, at, last=False):
            with pytest.raises(LogCorrupt, match="rebuild"):
                opened(damaged, SMALL, recovery_point=8)
            assert {name: damaged.read(f"{FOLDER}/{name}") for name in damaged.list(FOLDER)} == before
        else:
            opened(damaged, SMALL, recovery_point=8)


@pytest.mark.invariant("S1", "S3")
def test_damage_below_the_recovery_point_is_found_by_reading() -> None:
    on = disk()
    written(on)
    path = next(f"{FOLDER}/{name}" for name in on.list(FOLDER) if name.endswith(".log"))
    content = on.read(path)
    on.edit(path, content[:-3] + b"?" + content[-2:])
    log = opened(on, SMALL, clean=True, recovery_point=8)
    with pytest.raises(LogCorrupt, match="checksum"):
        list(map(log.read, [0] * 300, [1000] * 300))


@pytest.mark.invariant("S3")
@pytest.mark.parametrize("lost", [".log", "all"])
def test_durable_segments_that_vanished_are_reported(lost: str) -> None:
    on = disk()
    written(on)
    names_there = [name for name in on.list(FOLDER) if name.endswith(".log")]
    for name in names_there if lost == "all" else names_there[-1:]:
        on.remove(f"{FOLDER}/{name}")
    for clean in (True, False):
        with pytest.raises(LogCorrupt):
            opened(on, SMALL, recovery_point=8, clean=clean)


@pytest.mark.invariant("S2")
def test_a_batch_behind_a_gap_is_kept_unless_the_next_one_contradicts_it() -> None:
    on = disk()
    log = opened(on)
    for offset in (0, 5, 6, 20):
        log.append_as_follower(batch([b"v"], base_offset=offset, epoch=1), 0)
    log.close()
    path, size = log.active.log_path, len(batch([b"v"]))
    content = on.read(path)
    for damage, left in ((4 * size - 1, [0, 5, 6]), (3 * size - 1, [0, 5]), (2 * size - 1, [0])):
        damaged = _copy_of(on)
        damaged.edit(path, _flipped(content, damage))
        recovered = opened(damaged)
        assert [record.offset for record in everything(recovered)] == left
        assert recovered.end_offset == left[-1] + 1
        assert recovered.active.size == damage // size * size
    lower = content[: 2 * size] + (3).to_bytes(8, "big") + content[2 * size + 8 :]
    on.edit(path, lower)
    assert [record.offset for record in everything(opened(on))] == [0]


@pytest.mark.invariant("S3")
def test_without_a_recovery_point_only_the_last_segment_may_be_cut() -> None:
    on = disk()
    records = written(on)
    first, last = (f"{FOLDER}/{name}" for name in on.list(FOLDER) if name.endswith(".log"))
    torn = _copy_of(on)
    torn.edit(last, torn.read(last)[:-1])
    assert everything(opened(torn, SMALL, recovery_point=None)) == records[:-1]
    on.edit(first, on.read(first)[:-1])
    with pytest.raises(LogCorrupt):
        opened(on, SMALL, recovery_point=None)


@pytest.mark.invariant("S5")
@pytest.mark.row(38, 39)
@pytest.mark.parametrize("clean", [True, False])
def test_indexes_and_epochs_are_caches_that_may_be_damaged_or_deleted(clean: bool) -> None:
    on = disk()
    records = written(on)
    caches = [name for name in on.list(FOLDER) if not name.endswith(".log")]
    assert len(caches) == 5
    for name in caches:
        content = on.read(f"{FOLDER}/{name}")
        damages = [_flipped(content, at, bit) for at in range(len(content)) for bit in (1, 4, 16, 64)]
        damages += [content[:cut] for cut in range(len(content))] + [b"", content + b"\0" * 24]
        for damage in [None, *damages]:
            damaged = _copy_of(on)
            if damage is None:
                damaged.remove(f"{FOLDER}/{name}")
            else:
                damaged.edit(f"{FOLDER}/{name}", damage)
            _check_answers(opened(damaged, SMALL, clean=clean, recovery_point=8 if clean else 0), records)


def _check_answers(log: Log, records: list[Record]) -> None:
    assert everything(log, max_bytes=1) == records
    for record in records:
        assert log.read(record.offset, 1).data
        found = log.offset_for_timestamp(record.timestamp, log.end_offset)
        first = next(r for r in records if r.timestamp >= record.timestamp)
        assert found is not None
        assert found[0] == (first.timestamp, first.offset)
    assert log.epochs.entries == [(1, 0), (2, 3), (5, 7)]


@pytest.mark.invariant("S5")
@pytest.mark.row(38, 39)
@pytest.mark.parametrize("spike", [None, 2])
def test_no_damage_to_an_index_changes_what_is_read_or_found_by_time(spike: int | None) -> None:
    on = disk()
    config = LogConfig(segment_bytes=450, index_interval_bytes=0)
    log = opened(on, config)
    times = [1000 + 10 * number for number in range(12)]
    if spike is not None:
        times[spike] = 5000  # one batch of the first segment is newer than all others
    for number, time in enumerate(times):
        log.append_as_leader(batch([b"v%d" % number], timestamps=[time]), 1, 0)
    limits = (10_000, 300, 150)
    whole = {(o, limit): bytes(log.read(o, limit).data) for o in range(12) for limit in limits}
    log.close()
    indexes = [name for name in on.list(FOLDER) if name.endswith("index")]
    assert [on.size(f"{FOLDER}/{name}") for name in indexes] == [40, 24 if spike else 60, 40, 60]
    for name in indexes:
        content = on.read(f"{FOLDER}/{name}")
        damages = [_flipped(content, at, bit) for at in range(len(content)) for bit in (1, 2, 8, 128)]
        damages += [content[:cut] for cut in range(len(content))]
        for damage in damages:
            damaged = _copy_of(on)
            damaged.edit(f"{FOLDER}/{name}", damage)
            reopened = opened(damaged, config, clean=True, recovery_point=12)
            for number in (0, 4, 5, 8, 11):
                for limit in limits:
                    assert bytes(reopened.read(number, limit).data) == whole[number, limit]
                wanted = 995 + 10 * number
                found = reopened.offset_for_timestamp(wanted, 12)
                assert found is not None
                assert found[0] == next((t, o) for o, t in enumerate(times) if t >= wanted)
            newest = reopened.offset_for_timestamp(-3, 12)
            assert newest is not None
            assert newest[0] == (max(times), times.index(max(times)))


@pytest.mark.invariant("S5")
def test_an_epoch_checkpoint_that_parses_but_lies_is_rebuilt() -> None:
    on = disk()
    written(on)
    for lie in ("1 0\n2 4", "1 0\n2 2", "1 0\n3 3", "0 0\n2 3", "2 3", "1 0\n2 3\n4 6", "1 0"):
        damaged = _copy_of(on)
        content = f"0\n{len(lie.splitlines())}\n{lie}\n"
        damaged.edit(f"{FOLDER}/{names.LEADER_EPOCHS}", content.encode())
        assert opened(damaged, SMALL, clean=True).epochs.entries == [(1, 0), (2, 3), (5, 7)], lie


@pytest.mark.invariant("S5")
@pytest.mark.parametrize("content", [None, "", "0\n3\n1 0\n2", "0\n2\n1 0\n2 2\n", "0\n1\n1 0\n", "0\n0\n"])
def test_epochs_are_whole_after_a_crash_whatever_became_of_their_checkpoint(content: str | None) -> None:
    """Those of segments that were durable are read from their batches: a leader that does not know them would tell its
    followers that they end elsewhere."""
    on = disk()
    written(on, epochs=(1, 2, 2, 5, 6))
    path = f"{FOLDER}/{names.LEADER_EPOCHS}"
    if content is None:
        on.remove(path)
    else:
        on.edit(path, content.encode())
    log = opened(on, SMALL, recovery_point=7)
    assert log.segments[1].base_offset <= 7, "the first segment is not looked at"
    assert log.epochs.entries == [(1, 0), (2, 2), (5, 6), (6, 7)]
    log.close()
    assert opened(on, SMALL, clean=True).epochs.entries == [(1, 0), (2, 2), (5, 6), (6, 7)]


@pytest.mark.invariant("S4", "S7")
def test_a_flipped_byte_in_the_recovery_points_never_makes_wrong_records() -> None:
    on = disk()
    records = written(on)
    partition = TopicPartition("orders", 0)
    write_offsets(on, "data/points", {partition: 3, TopicPartition("other", 7): 12})
    content = on.read("data/points")
    for at in range(len(content)):
        for bit in range(8):
            damaged = _copy_of(on)
            damaged.edit("data/points", _flipped(content, at, 1 << bit))
            try:
                point = read_offsets(damaged, "data/points").get(partition)
                assert everything(opened(damaged, SMALL, recovery_point=point)) == records
            except CheckpointDamaged:
                continue  # seen, and the caller goes on without recovery points
            except LogCorrupt:
                assert _claims_too_much(point, records)


def _claims_too_much(point: int | None, records: list[Record]) -> bool:
    return point is not None and point > records[-1].offset


@pytest.mark.invariant("S2", "S4", "S12")
@pytest.mark.row(36)
def test_power_cuts_at_any_step_of_any_workload_keep_what_was_flushed() -> None:
    torn = 0
    for seed in range(300):
        torn += _survives_a_cut(seed)
    assert torn > 20


def _survives_a_cut(seed: int) -> bool:
    """One seeded workload, cut off somewhere, against what it was told was durable. True if a tail was lost."""
    rng = random.Random(seed)
    on = MemoryDisk(rng)
    config = LogConfig(segment_bytes=rng.choice([300, 1000]), index_interval_bytes=rng.choice([0, 100]))
    log = opened(on, config)
    log.flush()
    attempted: list[bytes] = []
    durable, point = 0, 0
    on.cut_after(rng.randrange(60))
    try:
        while True:
            value = bytes([rng.randrange(256)]) * rng.randrange(40)
            attempted.append(value)
            log.append_as_leader(batch([value]), 1 + log.end_offset // 7, 0)
            if rng.random() < 0.3:
                log.flush()
                durable = point = log.recovery_point
            if rng.random() < 0.1:
                log.roll(0)
    except PowerCut:
        on.power_cut()
    found = everything(recovered := opened(on, config, recovery_point=point))
    values = [record.value for record in found]
    assert len(values) >= durable
    assert values == attempted[: len(values)]
    assert [recovered.epochs.epoch_at(o) for o in range(len(values))] == [1 + o // 7 for o in range(len(values))]
    recovered.append_as_leader(batch([b"again"]), 99, 0)
    recovered.close()
    again = opened(on, config, clean=True, recovery_point=recovered.end_offset)
    assert [r.value for r in everything(again)] == [*values, b"again"]
    return len(values) < len(attempted) - 1


def _copy_of(on: MemoryDisk) -> MemoryDisk:
    copy = disk()
    for folder in ("data", FOLDER):
        copy.mkdir(folder)
        for name in on.list(folder):
            if f"{folder}/{name}" != FOLDER:
                copy.open(f"{folder}/{name}", create=True).close()
                copy.edit(f"{folder}/{name}", on.read(f"{folder}/{name}"))
    return copy


def _flipped(content: bytes, at: int, mask: int = 0x10) -> bytes:
    return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]


def _unchecked(content: bytes, at: int, last: bool) -> bool:
    """Whether no check can see a byte raised: leader epochs, and the offset of a log's very last batch, if that was
    not durable.

    Both are stamped in place and not covered by the checksum; other offsets are seen not to fit the next.
    """
    position = 0
    while position < len(content):
        size = 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        is_last = last and position + size == len(content)
        if position + 12 <= at < position + 16 or (is_last and position + 4 <= at < position + 8):
            return True
        position += size
    return False
