"""One assigned partition: where it is read, what was fetched and not handed out yet, and what its leader answered.

Pure. A partition passes through phases: its position is looked up (the group's commit), or found by a rule (the first
offset, the end, a time), then records are fetched. After a change of leader the position is validated first: the new
leader may hold another history than the one that was read.
"""

from collections import deque
from enum import Enum, auto
from typing import Any

from rookery.client.consumer.columns import BatchColumns, of_records
from rookery.client.consumer.decoding import Answer
from rookery.client.types import Columns, Record
from rookery.core.types import TopicPartition

EARLIEST = -2
LATEST = -1
NO_EPOCH = -1
UNKNOWN = -1


class Phase(Enum):
    COMMITTED = auto()
    """The position is what the group committed; it is to be looked up."""
    RESET = auto()
    """The position follows from a rule; the leader is to be asked."""
    VALIDATE = auto()
    """The position is known; a new leader is to be asked whether it has the same history."""
    FETCH = auto()
    """Records are fetched."""


class Chunk:
    """Records of one batch on their way to the user, one by one or in columns."""

    __slots__ = ("_content", "before", "count", "leader_epoch", "next_offset", "opened", "taken")

    def __init__(
        self, content: list[Record[Any, Any]] | BatchColumns, before: int, next_offset: int, leader_epoch: int
    ) -> None:
        self._content = content
        self.count = len(content)
        self.taken = 0
        self.before = before
        """The position before the first record."""
        self.next_offset = next_offset
        """The position after the last one."""
        self.leader_epoch = leader_epoch
        self.opened = False
        """Whether keys and values are deserialized."""

    @property
    def records(self) -> list[Record[Any, Any]]:
        if isinstance(self._content, BatchColumns):
            self._content = self._content.records()
        return self._content

    def replace(self, records: list[Record[Any, Any]]) -> None:
        self._content = records
        self.count = len(records)

    def columns(self, stop: int) -> Columns[Any, Any]:
        """The records not taken yet, up to this one."""
        if isinstance(self._content, BatchColumns):
            return self._content.cut(self.taken, stop)
        return of_records(self._content[self.taken : stop])

    @property
    def position(self) -> int:
        """The offset of the next record for the user."""
        if self.taken == 0:
            return self.before
        if self.taken == self.count:
            return self.next_offset
        content = self._content
        last = self.taken - 1
        return (content.offsets[last] if isinstance(content, BatchColumns) else content[last].offset) + 1


class Partition:
    """The state of one partition. Every seek gives it another `incarnation`: answers to earlier requests are void."""

    __slots__ = (
        "_position",
        "answers",
        "chunk",
        "committed",
        "failures",
        "fetch_epoch",
        "fetch_offset",
        "high_watermark",
        "incarnation",
        "last_stable",
        "leader_epoch",
        "log_start",
        "not_before",
        "paused",
        "phase",
        "place",
        "position_epoch",
        "preferred",
        "preferred_until",
        "problem",
        "reset_time",
        "revoking",
    )

    def __init__(self, place: TopicPartition, phase: Phase = Phase.COMMITTED) -> None:
        self.place = place
        self.phase = phase
        self.paused = False
        self.revoking = False
        """The group takes it away: nothing more is handed out or fetched."""
        self.incarnation = 0
        self.reset_time = LATEST
        """In phase RESET: EARLIEST, LATEST or a time in ms."""
        self.fetch_offset = UNKNOWN
        """The next offset to fetch: the end of what was fetched."""
        self.fetch_epoch = NO_EPOCH
        """The leader epoch of the record before it."""
        self.leader_epoch = NO_EPOCH
        """The epoch of the leader that the position was validated with."""
        self.committed = UNKNOWN
        """What the group has, as far as this consumer knows."""
        self._position = UNKNOWN
        self.position_epoch = NO_EPOCH
        self.answers: deque[Answer] = deque()
        self.chunk: Chunk | None = None
        self.problem: Exception | None = None
        """Raised to the user when all records before it were handed out."""
        self.high_watermark = UNKNOWN
        self.last_stable = UNKNOWN
        self.log_start = UNKNOWN
        self.preferred: int | None = None
        """A closer replica to read from, which the leader named."""
        self.preferred_until = 0.0
        self.not_before = 0.0
        """No fetch earlier, because the last one failed."""
        self.failures = 0

    # --- position -------------------------------------------------------------------------------------------

    @property
    def position(self) -> int | None:
        """The offset of the next record for the user; None while it is not known."""
        if self.phase in (Phase.COMMITTED, Phase.RESET):
            return None
        chunk = self.chunk
        return self._position if chunk is None else chunk.position

    def seek(self, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Read from here next; what was fetched is dropped."""
        self._drop()
        self.phase = Phase.FETCH
        self._position = self.fetch_offset = offset
        self.position_epoch = self.fetch_epoch = leader_epoch
        self.leader_epoch = NO_EPOCH  # a known epoch of the record before is validated with the leader first

    def reset(self, time: int) -> None:
        """Read from the offset at a time, or EARLIEST or LATEST; the leader is to be asked."""
        self._drop()
        self.phase = Phase.RESET
        self.reset_time = time

    def look_up(self) -> None:
        """Read from what the group committed."""
        self._drop()
        self.phase = Phase.COMMITTED

    def _drop(self) -> None:
        self.incarnation += 1
        self.answers.clear()
        self.chunk = None
        self.problem = None
        self.preferred = None
        self.not_before = 0.0
        self.failures = 0

    def saw_leader(self, leader_epoch: int) -> None:
        """Metadata names this leader epoch: a new one has to confirm the position, if there is anything to compare."""
        if self.phase is not Phase.FETCH or leader_epoch <= self.leader_epoch:
            return
        if self.fetch_epoch != NO_EPOCH and leader_epoch > self.fetch_epoch:
            self.phase = Phase.VALIDATE
        else:
            self.leader_epoch = leader_epoch

    def validated(self, leader_epoch: int) -> None:
        """The leader of this epoch has the same history up to the position."""
        self.leader_epoch = leader_epoch
        self.phase = Phase.FETCH

    def end(self, committed: bool) -> int:
        """Where there was no more to read at the last answer: with `committed`, before transactions that are open."""
        return self.last_stable if committed else self.high_watermark

    # --- what was fetched -----------------------------------------------------------------------------------

    @property
    def buffered(self) -> int:
        """Bytes fetched and not decoded."""
        return sum(answer.left for answer in self.answers)

    def fetched(self, answer: Answer, next_offset: int, leader_epoch: int) -> None:
        """An answer with batches up to `next_offset`, the last of this epoch."""
        self.answers.append(answer)
        self.fetch_offset = next_offset
        self.fetch_epoch = leader_epoch

    @property
    def fetchable(self) -> bool:
        return self.phase is Phase.FETCH and not self.paused and not self.revoking and self.problem is None

    @property
    def available(self) -> bool:
        """Whether there may be something for the user now."""
        if self.paused or self.revoking:
            return False
        return self.unread or self.problem is not None

    @property
    def unread(self) -> bool:
        """Whether something was fetched and not handed out."""
        chunk = self.chunk
        return bool((chunk is not None and chunk.taken < chunk.count) or self.answers)

    def next_chunk(self, *, same_answer: bool = False, columns: bool = False) -> Chunk | None:
        """The chunk to take records from; None when nothing is left, or nothing of the `same_answer`. Raises what a
        broken batch raises."""
        chunk = self.chunk
        if chunk is not None:
            if chunk.taken < chunk.count:
                return chunk
            self._position = chunk.next_offset
            self.position_epoch = chunk.leader_epoch
            self.chunk = None
        while self.answers:
            decoded = self.answers[0].next_batch(self._position, columns=columns)
            if decoded is None:
                self.answers.popleft()
                if same_answer:
                    return None
                continue
            if len(decoded.records):
                self.chunk = Chunk(decoded.records, self._position, decoded.next_offset, decoded.leader_epoch)
                return self.chunk
            if decoded.next_offset > self._position:
                self._position = decoded.next_offset
                self.position_epoch = decoded.leader_epoch
        return None

    @property
    def committable_epoch(self) -> int:
        """The leader epoch of the last record handed out, to be committed with the position."""
        chunk = self.chunk
        return self.position_epoch if chunk is None or chunk.taken == 0 else chunk.leader_epoch
