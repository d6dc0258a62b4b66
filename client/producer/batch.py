"""A batch of records of one partition: filled, closed, sent perhaps several times, and settled once.

The batch knows no event loop. A function can be left that is called once at its end.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rookery.client.producer.encoding import Row, Run, encode_row
from rookery.client.types import Headers, RecordMetadata, TopicPartition
from rookery.core.event_logging import get_logger
from rookery.core.wire.batch import TRANSACTIONAL, BatchHeader
from rookery.core.wire.compression import compress, decompress
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.records import HEADER_SIZE, decode_records, frame_batch

OVERHEAD = 12
"""Bytes of a small record besides key, value and headers."""
HEADER_OVERHEAD = 6
BYTES_MAX = 1 << 31

_log = get_logger("client.producer")
Callback = Callable[[RecordMetadata | None, Exception | None], None]
Listener = Callable[["Batch"], None]


class Stamp(NamedTuple):
    """What makes a batch idempotent; all -1 without that."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1


NO_STAMP = Stamp()


def row_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """How much room a record takes: about its encoded size, and never less for records of usual size."""
    size = OVERHEAD + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD + 3 * len(name) + len(content or b"")
    return size


class Batch:
    """Records in order. `size` is what they take of the buffer; what is sent may be smaller."""

    __slots__ = (
        "_callbacks", "_content", "_listeners", "_packed", "attempts", "base_offset", "base_timestamp", "children",
        "codec", "count", "created_at", "error", "last_error", "last_run", "last_timestamp", "level", "log_append_time",
        "newest_timestamp", "parent", "place", "retry_at", "sent_at", "settled", "size", "stamp", "transactional",
        "uncertain",
    )  # fmt: skip

    def __init__(self, place: TopicPartition, now: float, codec: int = 0, level: int | None = None) -> None:
        self.place = place
        self.created_at = now
        self.codec = codec
        self.level = level
        self.count = 0
        self.size = HEADER_SIZE
        self.base_timestamp = 0
        self.last_timestamp = 0
        self.newest_timestamp = 0
        self.last_run: Run | None = None
        self._content: list[Run | Row] = []
        self._packed: Buffer | None = None
        # on its way
        self.stamp = NO_STAMP
        self.transactional = False
        self.attempts = 0
        self.retry_at = 0.0
        self.sent_at = 0.0
        self.last_error: Exception | None = None
        """Why it is sent again."""
        self.uncertain = False
        """Whether it may be stored although nobody said so: an answer was lost."""
        # its end
        self.settled = False
        self.base_offset = -1
        self.log_append_time = -1
        self.error: Exception | None = None
        self.parent: Batch | None = None
        self.children: list[tuple[int, Batch]] = []
        self._listeners: list[Listener] = []
        self._callbacks: list[tuple[int, int, Callback]] = []

    # --- filling --------------------------------------------------------------------------------------------

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Add a record; returns its number in the batch. `size` is up to the caller."""
        number = self.count
        self.count = number + 1
        run = self.last_run
        if timestamp != self.last_timestamp or run is None:
            self._at(timestamp, number)
            run = None
        if headers or value is None:
            self._content.append((timestamp, key, value, headers))
            self.last_run = None
        elif key is None:
            if run is not None and run.keys is None:
                run.values.append(value)
            else:
                self._run(Run(timestamp, None, [value]))
        elif run is not None and run.keys is not None:
            run.keys.append(key)
            run.values.append(value)
        else:
            self._run(Run(timestamp, [key], [value]))
        return number

    def extend(self, timestamp: int, keys: list[bytes] | None, values: list[bytes]) -> int:
        """Add many records without headers; returns the number of the first."""
        number = self.count
        self._at(timestamp, number)
        self.count += len(values)
        self._run(Run(timestamp, keys, values))
        return number

    def enclose(self, timestamp: int, records: Buffer, count: int) -> None:
        """Take records that are encoded, as the only ones. They are compressed at once."""
        self._at(timestamp, 0)
        self.count = count
        self._packed = compress(self.codec, records, self.level)

    def _run(self, run: Run) -> None:
        self._content.append(run)
        self.last_run = run

    def _at(self, timestamp: int, number: int) -> None:
        self.last_timestamp = timestamp
        if number == 0:
            self.base_timestamp = self.newest_timestamp = timestamp
        elif timestamp > self.newest_timestamp:
            self.newest_timestamp = timestamp

    # --- sending --------------------------------------------------------------------------------------------

    @property
    def stamped(self) -> bool:
        return self.stamp.sequence >= 0

    def encoded(self) -> bytearray:
        """The batch for the wire with its present stamp; the records are encoded and compressed once."""
        if self._packed is None:
            self._packed = compress(self.codec, self._records(), self.level)
            self._content.clear()
            self.last_run = None
        header = BatchHeader.to_write(
            attributes=self.codec | (TRANSACTIONAL if self.transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.newest_timestamp,
            producer_id=self.stamp.producer_id,
            producer_epoch=self.stamp.epoch,
            base_sequence=self.stamp.sequence,
            record_count=self.count,
        )
        return frame_batch(self._packed, header)

    def _records(self) -> bytes:
        parts: list[bytes] = []
        number, base = 0, self.base_timestamp
        for each in self._content:
            if isinstance(each, Run):
                parts += each.encode(number, base)
                number += len(each.values)
            else:
                parts.append(encode_row(number, each, base))
                number += 1
        return b"".join(parts)

    def split(self) -> list["Batch"]:
        """Two batches with half of the records each, which the broker found too large together."""
        packed = self._packed
        data = self._records() if packed is None else bytes(decompress(self.codec, packed, BYTES_MAX))
        records = decode_records(data, self.count, 0, self.base_timestamp)
        middle = self.count // 2
        for first, some in ((0, records[:middle]), (middle, records[middle:])):
            child = Batch(self.place, self.created_at, self.codec, self.level)
            for record in some:
                headers = tuple((name, content) for name, content in record.headers)
                child.append(record.timestamp, record.key, record.value, headers)
                child.size += row_size(record.key, record.value, headers)
            child.transactional = self.transactional
            child.parent = self
            self.children.append((first, child))
        self._content.clear()
        self._packed = None
        return [child for _, child in self.children]

    # --- the end --------------------------------------------------------------------------------------------

    def succeed(self, base_offset: int, log_append_time: int = -1) -> None:
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self._settle()

    def fail(self, error: Exception) -> bool:
        """Returns whether anybody waits for the outcome."""
        self.error = error
        return self._settle()

    def _settle(self) -> bool:
        self.settled = True
        self._content.clear()
        self._packed = None
        observed = bool(self._listeners or self._callbacks)
        listeners, self._listeners = self._listeners, []
        callbacks, self._callbacks = self._callbacks, []
        for number, timestamp, callback in callbacks:
            error = self.error_of(number)
            try:
                callback(None if error else self.metadata(number, timestamp), error)
            except Exception as mistake:  # of the user's function: other records are to be settled all the same
                _log.exception("producer.callback.failed", mistake, place=str(self.place))
        for listener in listeners:
            listener(self)
        if self.parent is not None:
            observed = self.parent._child_settled() or observed
        return observed

    def _child_settled(self) -> bool:
        if all(child.settled for _, child in self.children):
            return self._settle()
        return True

    def when_settled(self, listener: Listener) -> None:
        """Call `listener` once, at once if it is settled already."""
        if self.settled:
            listener(self)
        else:
            self._listeners.append(listener)

    def without(self, listener: Listener) -> None:
        """This function is not called any more."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def call_back(self, number: int, timestamp: int, callback: Callback) -> None:
        self._callbacks.append((number, timestamp, callback))

    def error_of(self, number: int) -> Exception | None:
        """Why a record was not delivered."""
        child, _ = self._holding(number)
        return child.error

    def metadata(self, number: int, timestamp: int) -> RecordMetadata:
        """Where a delivered record is."""
        batch, number = self._holding(number)
        base = batch.base_offset
        time = batch.log_append_time if batch.log_append_time >= 0 else timestamp
        return RecordMetadata(*self.place, base + number if base >= 0 else -1, time)

    def parts(self) -> Iterator["Batch"]:
        """The batch itself, or the parts it was split into."""
        for _, child in self.children:
            yield from child.parts()
        if not self.children:
            yield self

    def _holding(self, number: int) -> tuple["Batch", int]:
        batch = self
        while batch.children:
            first, child = next(pair for pair in reversed(batch.children) if pair[0] <= number)
            batch, number = child, number - first
        return batch, number
