"""Keys and values of records as the user wants them, and what happens to a record that cannot be read. Pure.

The rule for a failure (``on.deserialize.error``): raise it when the records before it were handed out, skip the record,
set it aside for a topic of its own, or hand it out with its bytes and the error.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rookery.client.consumer.decoding import RawRecord
from rookery.client.errors import SerializationError
from rookery.client.serializers import Deserializer
from rookery.client.types import Record

AnyRecord = Record[Any, Any]
RAISE, SKIP, DEAD_LETTER, YIELD = "raise", "skip", "dead-letter", "yield"


class RecordDeserializationError(SerializationError):
    """A record's key or value cannot be deserialized; `record` has its bytes. `seek` behind it to go on."""

    def __init__(self, record: RawRecord, field: str, cause: Exception) -> None:
        super().__init__(
            f"the {field} of {record.topic}-{record.partition} at offset {record.offset} "
            f"cannot be deserialized: {type(cause).__name__}: {cause}",
            "Seek to the next offset, or set on_deserialize_error to skip, dead-letter or yield",
        )
        self.record = record
        self.__cause__ = cause


class Opened(NamedTuple):
    """Records of a batch after deserializing."""

    records: list[AnyRecord]
    skipped: Sequence[tuple[RawRecord, RecordDeserializationError]] = ()
    """Not in `records`, though before its end."""
    problem: RecordDeserializationError | None = None
    """What ended the batch early; the record of it and all later ones are not in `records`."""


class Opener:
    """Deserializes keys and values by one rule."""

    def __init__(self, key: Deserializer | None, value: Deserializer | None, on_error: str = RAISE) -> None:
        self._key = key
        self._value = value
        self._on_error = on_error

    @property
    def leaves_bytes(self) -> bool:
        return self._key is None and self._value is None

    def open(self, records: list[RawRecord]) -> Opened:
        if self.leaves_bytes:
            return Opened(records)
        opened: list[AnyRecord] = []
        skipped: list[tuple[RawRecord, RecordDeserializationError]] = []
        for record in records:
            try:
                opened.append(self._open(record))
            except RecordDeserializationError as error:
                if self._on_error == RAISE:
                    return Opened(opened, skipped, error)
                if self._on_error == YIELD:
                    opened.append(record._replace(error=error))
                else:
                    skipped.append((record, error))
        return Opened(opened, skipped)

    def _open(self, record: RawRecord) -> AnyRecord:
        key, value = record.key, record.value
        new_key: Any = key
        new_value: Any = value
        if key is not None and self._key is not None:
            try:
                new_key = self._key(key)
            except Exception as error:
                raise RecordDeserializationError(record, "key", error) from error
        if value is not None and self._value is not None:
            try:
                new_value = self._value(value)
            except Exception as error:
                raise RecordDeserializationError(record, "value", error) from error
        return record._replace(key=new_key, value=new_value)
