"""A log and a naive model of one do the same things, in any order, and agree at every step."""

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rookery.core.errors import OffsetOutOfRangeError
from rookery.core.log import Log, LogConfig, names
from rookery.core.testing.disk import MemoryDisk
from rookery.core.wire.batch import batches
from tests.unit.core.log.sample import FOLDER, batch, everything, records_of


class ModelBatch:
    def __init__(self, base: int, epoch: int, data: bytes, values: list[tuple[int, int, bytes]]) -> None:
        self.base, self.epoch, self.data, self.values = base, epoch, data, values
        self.next = values[-1][0] + 1


class LogAgainstModel(RuleBasedStateMachine):
    @initialize(
        first=st.sampled_from([0, 2**31 - 5, 2**40]),
        segment_bytes=st.integers(150, 1500),
        interval=st.sampled_from([0, 100, 300]),
    )
    def begin(self, first: int, segment_bytes: int, interval: int) -> None:
        self.disk = MemoryDisk(random.Random(first))
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval, segment_ms=500)
        self.start = self.end = first
        self.epoch = 0
        self.now = 100
        self.model: list[ModelBatch] = []
        self.log = self.open(clean=False)

    def open(self, clean: bool) -> Log:
        return Log.open(
            self.disk, FOLDER, self.config, clean=clean, recovery_point=None if clean else self.start,
            log_start_offset=self.start,
        )  # fmt: skip

    def fresh(self, count: int, size: int, times: list[int]) -> bytearray:
        values = [bytes([self.now % 256]) * size for _ in range(count)]
        self.now += 7
        return batch(values, timestamps=[self.now + times[i % len(times)] for i in range(count)])

    def remember(self, data: bytearray) -> None:
        for pos, header in batches(data):
            whole = bytes(data[pos : pos + header.size])
            values = [(r.offset, r.timestamp, r.value or b"") for r in records_of(whole)]
            self.model.append(ModelBatch(header.base_offset, header.partition_leader_epoch, whole, values))
            self.end = header.next_offset

    @rule(
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=3),
        size=st.integers(0, 40),
        times=st.lists(st.integers(-50, 50), min_size=1, max_size=4),
    )
    def append_as_leader(self, counts: list[int], size: int, times: list[int]) -> None:
        data = bytearray().join(self.fresh(count, size, times) for count in counts)
        if len(data) > self.config.segment_bytes:
            return
        expected = self.end
        done = self.log.append_as_leader(data, self.epoch, self.now)
        assert done.base_offset == expected
        self.remember(data)
        assert done.last_offset == self.end - 1 == self.log.end_offset - 1
        latest = max(t for b in self.model[-len(counts) :] for _, t, _ in b.values)
        assert done.max_timestamp == latest

    @rule(gap=st.sampled_from([0, 0, 3, 2**31]), counts=st.lists(st.integers(1, 3), min_size=1, max_size=8))
    def append_as_follower(self, gap: int, counts: list[int]) -> None:
        data = bytearray()
        offset = self.end + gap
        for count in counts:
            data += batch([b"f"] * count, base_offset=offset, epoch=self.epoch)
            offset += count
        self.log.append_as_follower(bytes(data), self.now)
        self.remember(data)

    @rule(by=st.integers(1, 3))
    def next_epoch(self, by: int) -> None:
        self.epoch += by

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule(clean=st.booleans(), lost=st.sets(st.sampled_from([names.INDEX, names.TIME_INDEX, "checkpoint"])))
    def restart(self, clean: bool, lost: set[str]) -> None:
        if clean:
            self.log.close()
        else:
            self.log.abandon()
        for name in self.disk.list(FOLDER):
            if name.endswith(tuple(lost)):
                self.disk.remove(f"{FOLDER}/{name}")
        self.log = self.open(clean)

    @rule(choose=st.floats(0, 1))
    def truncate(self, choose: float) -> None:
        offset = self.start + round(choose * (self.end - self.start))
        changed = self.log.truncate_to(offset)
        assert changed == (offset < self.end)
        self.model = [b for b in self.model if b.next <= offset]
        if changed:
            self.end = self.log.end_offset
            assert (self.model[-1].next if self.model else 0) <= self.end <= offset
        self.start = min(self.start, self.end)

    @rule(ahead=st.integers(0, 10))
    def start_anew(self, ahead: int) -> None:
        self.start = self.end = self.end + ahead
        self.model = []
        self.log.truncate_fully_and_start_at(self.start)

    @rule(choose=st.floats(0, 1))
    def advance_start(self, choose: float) -> None:
        offset = self.start + round(choose * (self.end - self.start))
        assert self.log.advance_start(offset) == (offset > self.start)
        self.start = offset

    @rule(choose=st.floats(0, 1))
    def delete_old(self, choose: float) -> None:
        offset = self.start + round(choose * (self.end - self.start))
        taken = self.log.take_old(offset, lambda segment, end: True)
        for segment in taken:
            segment.remove_files(names.DELETED)
        if taken:
            assert self.start <= self.log.start_offset <= self.end
            assert all(b.next <= offset for b in self.model if b.base < self.log.segments[0].base_offset)
            self.start = self.log.start_offset

    @rule(choose=st.floats(0, 1), max_bytes=st.integers(0, 1000), below=st.integers(0, 6), one=st.booleans())
    def read(self, choose: float, max_bytes: int, below: int, one: bool) -> None:
        offset = self.start + round(choose * (self.end - self.start))
        upper = self.end - below
        got = self.log.read(offset, max_bytes, upper, one)
        expected = b""
        for b in self.model:
            if b.next <= offset:
                continue
            if b.next > upper or (len(expected) + len(b.data) > max_bytes and not (one and not expected)):
                break
            expected += b.data
            if len(expected) > max_bytes:
                break
        segment_end = next((s.base_offset for s in self.log.segments if s.base_offset > got.segment_base), None)
        if segment_end is not None and len(got.data) < len(expected):
            # a read does not cross into the next segment
            assert expected.startswith(bytes(got.data))
            assert got.next_offset <= segment_end
            assert got.data or not one
        else:
            assert bytes(got.data) == expected

    @rule(ahead=st.integers(-100, 100), below=st.integers(0, 5))
    def look_up_times(self, ahead: int, below: int) -> None:
        latest = self.end - below
        visible = [(t, o) for b in self.model for o, t, _ in b.values if o >= self.start]
        wanted = max(self.now + ahead, 0)
        greatest = max(visible, key=lambda point: point[0], default=None)
        first = next((point for point in visible if point[0] >= wanted), None)
        for asked, answer in ((wanted, first), (-3, greatest)):
            found = self.log.offset_for_timestamp(asked, latest)
            assert (found and tuple(found[0])) == (answer if answer and answer[1] < latest else None)
        assert self.log.offset_for_timestamp(-1, latest)[0].offset == latest  # type: ignore[index]
        assert self.log.offset_for_timestamp(-2, latest)[0].offset == self.start  # type: ignore[index]
        assert self.log.offset_for_timestamp(-4, latest)[0].offset == self.start  # type: ignore[index]
        assert self.log.offset_for_timestamp(-5, latest) is None

    @rule(past=st.integers(1, 5))
    def out_of_range(self, past: int) -> None:
        for offset in (self.end + past, self.start - past):
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(offset, 100)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "log"):
            return
        if self.log.start_offset > self.start:  # a log may start where its first batch does
            assert all(b.next <= self.start or b.base >= self.log.start_offset for b in self.model)
            self.start = self.log.start_offset
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        expected = [v for b in self.model for v in b.values if v[0] >= self.start]
        assert [(r.offset, r.timestamp, r.value or b"") for r in everything(self.log)] == expected

    @precondition(lambda self: hasattr(self, "log"))
    @rule()
    def epochs_agree(self) -> None:
        for b in self.model:
            for offset, _, _ in b.values:
                if offset >= self.start:
                    assert self.log.epochs.epoch_at(offset) == b.epoch


TestLogAgainstModel = pytest.mark.row(36, 37, 47)(
    pytest.mark.invariant("S2", "S5")(LogAgainstModel.TestCase)
)
TestLogAgainstModel.settings = settings(
    max_examples=200, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


