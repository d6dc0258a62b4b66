"""A naive partition: plain lists and full replays, for comparison with the real one.

`Driver` applies random steps to both and compares what can be seen from outside: results of appends,
bounds, reads with every isolation, and the answers to retries. It is used by the property test and by the
soak.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rookery.broker.log.background import Throttle
from rookery.broker.log.cleaning import begin_cleaning, cleaning_plan, put_in_place
from rookery.broker.log.compaction import CompactionPolicy
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.log.producer_state import NOT_VERIFIED
from rookery.broker.log.retention import Retention
from rookery.core.config.options import LONG_MAX
from rookery.core.errors import KafkaError
from rookery.core.log import LogConfig, names
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from rookery.core.wire.markers import EndMarker, build_marker
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.table import visible

TP = TopicPartition("model", 0)
FOLDER = "/d/model-0"
CONFIG = TopicLogConfig(
    log=LogConfig(segment_bytes=500, index_interval_bytes=100),
    retention=Retention(False, -1, -1),
    compaction=CompactionPolicy(0.0, 0, LONG_MAX),
    delete_retention_ms=50,
)


@dataclass(frozen=True)
class Entry:
    """One batch of the model's log."""

    base: int
    keys: tuple[bytes, ...]
    values: tuple[bytes | None, ...]
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    commit: bool | None = None  # for a marker

    @property
    def last(self) -> int:
        return self.base if self.commit is not None else self.base + len(self.keys) - 1


@dataclass
class Model:
    """The whole log as a list; everything is derived from it by replay."""

    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    watermark: int = 0
    end: int = 0

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.end = entry.last + 1

    def truncate(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry.last < offset]
        self.end = self.entries[-1].last + 1 if self.entries else min(self.start, offset)
        self.watermark = min(self.watermark, self.end)
        self.start = min(self.start, self.end)

    def transactions(self) -> list[tuple[int, int, int | None, bool | None]]:
        """(producer, first offset, marker offset, commit) of every transaction with data."""
        found: list[tuple[int, int, int | None, bool | None]] = []
        open_at: dict[int, int] = {}
        for entry in self.entries:
            if entry.commit is not None:
                if entry.producer in open_at:
                    found.append((entry.producer, open_at.pop(entry.producer), entry.base, entry.commit))
            elif entry.transactional:
                open_at.setdefault(entry.producer, entry.base)
        return found + [(producer, first, None, None) for producer, first in open_at.items()]

    def last_stable(self) -> int:
        unstable = [
            first for _, first, marker, _ in self.transactions() if marker is None or marker >= self.watermark
        ]
        return min([self.watermark, *(max(first, self.start) for first in unstable)])

    def committed(self) -> list[tuple[int, bytes, bytes | None]]:
        """What a read_committed consumer gets, from the log start to the last stable offset."""
        aborted = [(p, first, marker) for p, first, marker, commit in self.transactions() if commit is False]
        stable = self.last_stable()
        found: list[tuple[int, bytes, bytes | None]] = []
        for entry in self.entries:
            if entry.commit is not None or entry.last >= stable:
                continue
            if entry.transactional and any(
                p == entry.producer and first <= entry.base < (marker or 0) for p, first, marker in aborted
            ):
                continue
            pairs = zip(range(entry.base, entry.last + 1), entry.keys, entry.values, strict=True)
            found += [pair for pair in pairs if pair[0] >= self.start]
        return found

    def offer(self, producer: int, epoch: int, first: int, count: int) -> str | int | None:
        """What an idempotent batch is answered: an error, the offset of what it repeats, or None: append
        it."""
        past = [entry for entry in self.entries if entry.producer == producer]
        if not past:
            return None
        newest = past[-1].epoch
        if epoch < newest:
            return "INVALID_PRODUCER_EPOCH"
        if epoch > newest:
            return None if first == 0 else "OUT_OF_ORDER_SEQUENCE_NUMBER"
        mine: list[Entry] = []  # the data of this epoch, without a break by another
        for entry in past:
            if entry.epoch != epoch:
                mine.clear()
            elif entry.commit is None:
                mine.append(entry)
        aborted = [(f, m) for p, f, m, commit in self.transactions() if p == producer and commit is False]
        for entry in mine[-5:]:
            undone = any(f <= entry.base < (m or 0) for f, m in aborted)
            if entry.sequence == first and len(entry.keys) == count and not undone:
                return entry.base
        expected = mine[-1].sequence + len(mine[-1].keys) if mine else 0
        return None if first == expected else "OUT_OF_ORDER_SEQUENCE_NUMBER"


class Driver:
    """Random steps against both, from one seed."""

    def __init__(self, seed: int, *, compact: bool) -> None:
        self.rng = random.Random(seed)
        self.compact = compact
        self.disk = MemoryDisk(random.Random(seed))
        self.disk.mkdir("/d")
        self.config = replace(CONFIG, compact=compact)
        self.model = Model()
        self.now = NOW
        self.leader_epoch = 0
        self.log = self.reopen()

    def reopen(self, *, clean: bool = False, recovery_point: int = 0) -> PartitionLog:
        return PartitionLog.open(
            self.disk,
            FOLDER,
            TP,
            self.config,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=self.model.start,
            high_watermark=self.model.watermark,
            now_ms=self.now,
        )

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.rng.choice((0, 1, 20))
            getattr(self, self._choose())()
            self.compare()

    def _choose(self) -> str:
        weights = {
            "produce": 10,
            "transact": 8,
            "retry": 4,
            "finish": 5,
            "watermark": 6,
            "truncate": 1,
            "restart": 2,
            "lose_caches": 1,
            "roll": 2,
            "delete_records": 1,
            "clean": 2 if self.compact else 0,
        }
        return self.rng.choices(list(weights), list(weights.values()))[0]

    # -- steps

    def _content(self, count: int) -> tuple[tuple[bytes, ...], tuple[bytes | None, ...]]:
        keys = tuple(b"k%d" % self.rng.randrange(6) for _ in range(count))
        values = tuple(
            None if self.rng.random() < 0.1 else b"v%d" % self.rng.randrange(1000) for _ in range(count)
        )
        return keys, values

    def produce(self) -> None:
        self._offer(self.rng.choice((-1, 0, 1)), transactional=False)

    def transact(self) -> None:
        self._offer(self.rng.choice((2, 3)), transactional=True)

    def _offer(self, producer: int, *, transactional: bool) -> None:
        keys, values = self._content(self.rng.randint(1, 3))
        epoch = sequence = -1
        if producer >= 0:
            epoch, expected = self._expected(producer)
            sequence = self.rng.choice((expected, expected, expected, expected, expected + 1, 0))
            if self.rng.random() < 0.05:
                epoch, sequence = epoch + 1, 0
        entry = Entry(self.model.end, keys, values, producer, epoch, sequence, transactional)
        self._send(entry)

    def _expected(self, producer: int) -> tuple[int, int]:
        past = [entry for entry in self.model.entries if entry.producer == producer]
        if not past:
            return 0, 0
        epoch = past[-1].epoch
        data = [entry for entry in past if entry.commit is None and entry.epoch == epoch]
        return epoch, data[-1].sequence + len(data[-1].keys) if data else 0

    def retry(self) -> None:
        sent = [entry for entry in self.model.entries if entry.producer >= 0 and entry.commit is None]
        if sent:
            self._send(self.rng.choice(sent[-8:]))

    def _send(self, entry: Entry) -> None:
        expected: str | int | None = None
        if entry.producer >= 0:
            expected = self.model.offer(entry.producer, entry.epoch, entry.sequence, len(entry.keys))
        data = batch(
            len(entry.keys),
            keys=entry.keys,
            values=entry.values,
            timestamp=NOW,
            producer_id=entry.producer,
            epoch=entry.epoch,
            sequence=entry.sequence,
            transactional=entry.transactional,
        )
        try:
            answer: str | int = self.log.append_as_leader(data, self.leader_epoch, NOW, NOT_VERIFIED).base_offset
        except KafkaError as error:
            answer = error.code.name
        if expected is None:
            expected = self.model.end
            self.model.append(replace(entry, base=self.model.end))
        _same("answer to a batch", answer, expected)

    def finish(self) -> None:
        opened = [p for p, _, marker, _ in self.model.transactions() if marker is None]
        if opened:
            producer, commit = self.rng.choice(opened), self.rng.random() < 0.5
            epoch = self._expected(producer)[0]
            marker = EndMarker(commit, 0)
            built = build_marker(marker, producer_id=producer, producer_epoch=epoch, timestamp=NOW)
            self.log.append_own(built, self.leader_epoch, NOW)
            self.model.append(Entry(self.model.end, (), (), producer, epoch, commit=commit))

    def watermark(self) -> None:
        target = self.rng.randint(self.model.watermark, self.model.end)
        self.model.watermark = target
        self.log.advance_high_watermark(target)

    def truncate(self) -> None:
        offset = self.rng.randint(self.model.watermark, self.model.end)
        self.log.truncate_to(offset, NOW)
        self.model.truncate(offset)
        self.leader_epoch += 1

    def restart(self) -> None:
        clean = self.rng.random() < 0.5
        if clean:
            self.log.close()
        elif self.rng.random() < 0.5:
            self.log.store.save()
        self.disk.restart()
        self.log = self.reopen(clean=clean)

    def lose_caches(self) -> None:
        """Remove or damage some files that are only caches, while the process is down."""
        if self.rng.random() < 0.5:
            self.log.close()
            clean = True
        else:
            clean = False
        self.disk.restart()
        for name in self.disk.list(FOLDER):
            if not name.endswith((names.SNAPSHOT, names.TXN_INDEX, names.INDEX, names.TIME_INDEX)):
                continue
            fate = self.rng.random()
            path = f"{FOLDER}/{name}"
            content = bytearray(self.disk.read(path))
            if fate < 0.3:
                self.disk.remove(path)
            elif fate < 0.6 and content:
                content[self.rng.randrange(len(content))] ^= 1 << self.rng.randrange(8)
                self.disk.edit(path, content)
            elif fate < 0.7:
                self.disk.edit(path, content[: self.rng.randrange(len(content) + 1)])
        self.log = self.reopen(clean=clean)

    def roll(self) -> None:
        self.log.roll(self.now)

    def delete_records(self) -> None:
        # Deleted records take what was known of producers along only where no snapshot remembers them; leave
        # the log start alone while such producers are in play, so that the model stays simple.
        upto = self.model.start
        for entry in self.model.entries:
            if entry.producer >= 0 or entry.last >= self.model.watermark:
                break
            upto = entry.last + 1
        if upto > self.model.start:
            _same("log start", self.log.delete_records(upto), upto)
            self.model.start = upto

    def clean(self) -> None:
        found = cleaning_plan(self.log, self.now)
        if found is None:
            return
        memory = self.rng.choice((176 * 3, 1 << 20))
        job = begin_cleaning(self.log, found, memory_bytes=memory, throttle=Throttle(1e15), now_ms=self.now)
        job.prepare()
        while (group := job.next_group()) is not None:
            old = put_in_place(self.log, group, self.now)
            _same("groups put in place", old is not None, True)
            for segment in old or ():
                segment.remove_files(names.DELETED)
        self.log.clean_offset = job.end

    # -- what can be seen

    def compare(self) -> None:
        model, log = self.model, self.log
        _same("log end", log.end_offset, model.end)
        _same("log start", log.start_offset, model.start)
        _same("high watermark", log.high_watermark, model.watermark)
        _same("last stable offset", log.last_stable_offset, model.last_stable())
        real = [(r.offset, r.key, r.value) for r in visible(log)]
        wanted = model.committed()
        if not self.compact:
            _same("committed records", real, wanted)
        else:
            _same("foreign records", [each for each in real if each not in wanted], [])
            _same("table", _table(real), _table(wanted))


def _table(records: Sequence[tuple[int, bytes | None, bytes | None]]) -> dict[bytes | None, bytes]:
    table: dict[bytes | None, bytes] = {}
    for _, key, value in records:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


def _same(what: str, real: object, wanted: object) -> None:
    if real != wanted:
        raise AssertionError(f"{what}: the log says {real!r}, the model {wanted!r}")
