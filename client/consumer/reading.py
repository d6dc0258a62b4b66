"""From buffers to the user: the next records, partition by partition in turn. Pure."""

from typing import Any

from rookery.client.consumer.columns import joined
from rookery.client.consumer.decoding import RawRecord
from rookery.client.consumer.deserializing import RAISE, AnyRecord, Opener, RecordDeserializationError
from rookery.client.consumer.fetches import Fetches
from rookery.client.consumer.partition import Chunk, Partition
from rookery.client.types import Columns
from rookery.core.errors import KafkaError
from rookery.core.wire.primitives import WireError


class Reading:
    """A partition has its turn until one answer of its leader is used up; then the next partition has it."""

    def __init__(self, fetches: Fetches, opener: Opener | None = None) -> None:
        self._fetches = fetches
        self._opener = opener or Opener(None, None, RAISE)
        self._current: Partition | None = None
        self.set_aside: list[tuple[RawRecord, RecordDeserializationError]] = []
        """Records that could not be deserialized and are not handed out; the shell takes them from here."""
        self.handed_out = 0

    @property
    def progress(self) -> object:
        """Differs when records were handed out since."""
        current = self._current
        return self.handed_out, None if current is None or current.chunk is None else (
            id(current),
            current.chunk.taken,
        )

    def chunk(self, *, columns: bool = False) -> Chunk | None:
        """The chunk to take records from, None if there is none; with `columns` new ones are decoded in columns. Raises
        the problem of a partition once nothing else is left to hand out."""
        current = self._current
        if current is not None and current.available:
            chunk = self._of(current, same_answer=True, columns=columns)
            if chunk is not None:
                return chunk
        self._current = None
        problem = None
        for partition in self._fetches.in_turn():
            chunk = self._of(partition, columns=columns)
            if chunk is not None:
                self._current = partition
                return chunk
            problem = problem or partition.problem
        if problem is not None:
            raise problem
        return None

    def take(self, most: int) -> list[AnyRecord]:
        """At most so many records; empty if there are none now."""
        taken: list[AnyRecord] = []
        while (chunk := self._next(most - len(taken), bool(taken))) is not None:
            end = min(chunk.count, chunk.taken + most - len(taken))
            taken += chunk.records[chunk.taken : end]  # a copy: the user may change the list
            self._took(chunk, end)
        return taken

    def take_columns(self, most: int) -> list[Columns[Any, Any]]:
        """At most so many records, in columns by partition."""
        parts: list[Columns[Any, Any]] = []
        left = most
        while (chunk := self._next(left, bool(parts), columns=True)) is not None:
            end = min(chunk.count, chunk.taken + left)
            left -= end - chunk.taken
            parts.append(chunk.columns(end))
            self._took(chunk, end)
        return joined(parts)

    def _next(self, left: int, has_some: bool, *, columns: bool = False) -> Chunk | None:
        """The next chunk if there is room. What is wrong with it is raised by the next call if this one has records."""
        if left <= 0:
            return None
        try:
            return self.chunk(columns=columns)
        except Exception:
            if has_some:
                return None
            raise

    def _took(self, chunk: Chunk, end: int) -> None:
        self.handed_out += end - chunk.taken
        chunk.taken = end

    def _of(self, partition: Partition, *, same_answer: bool = False, columns: bool = False) -> Chunk | None:
        """The partition's next chunk, opened."""
        while True:
            try:
                chunk = partition.next_chunk(same_answer=same_answer, columns=columns)
            except (WireError, KafkaError) as error:
                partition.answers.clear()
                partition.problem = error
                return None
            if chunk is None or chunk.opened:
                return chunk
            chunk.opened = True
            if self._opener.leaves_bytes:
                return chunk
            opened = self._opener.open(chunk.records)
            chunk.replace(opened.records)
            self.set_aside.extend(opened.skipped)
            if opened.problem is not None:
                chunk.next_offset = opened.problem.record.offset
                partition.answers.clear()
                partition.problem = opened.problem
            if chunk.count:
                return chunk
