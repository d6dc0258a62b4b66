"""From buffers to the user: the next records, partition by partition in turn. Pure."""

from rookery.client.consumer.decoding import RawRecord
from rookery.client.consumer.deserializing import RAISE, AnyRecord, Opener, RecordDeserializationError
from rookery.client.consumer.fetches import Fetches
from rookery.client.consumer.partition import Chunk, Partition
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

    def chunk(self) -> Chunk | None:
        """The chunk to take records from, None if there is none. Raises the problem of a partition once nothing else is
        left to hand out."""
        current = self._current
        if current is not None and current.available:
            chunk = self._of(current, same_answer=True)
            if chunk is not None:
                return chunk
        self._current = None
        problem = None
        for partition in self._fetches.in_turn():
            chunk = self._of(partition)
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
        while len(taken) < most:
            try:
                chunk = self.chunk()
            except Exception:
                if taken:
                    break  # raised by the next call
                raise
            if chunk is None:
                break
            end = min(len(chunk.records), chunk.taken + most - len(taken))
            taken += chunk.records[chunk.taken : end]  # a copy: the user may change the list
            chunk.taken = end
        self.handed_out += len(taken)
        return taken

    def _of(self, partition: Partition, *, same_answer: bool = False) -> Chunk | None:
        """The partition's next chunk, opened."""
        while True:
            try:
                chunk = partition.next_chunk(same_answer=same_answer)
            except (WireError, KafkaError) as error:
                partition.answers.clear()
                partition.problem = error
                return None
            if chunk is None or chunk.opened:
                return chunk
            opened = self._opener.open(chunk.records)
            chunk.records = opened.records
            chunk.opened = True
            self.set_aside.extend(opened.skipped)
            if opened.problem is not None:
                chunk.next_offset = opened.problem.record.offset
                partition.answers.clear()
                partition.problem = opened.problem
            if chunk.records:
                return chunk
