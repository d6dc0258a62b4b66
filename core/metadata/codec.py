"""Records ↔ bytes: protobuf messages of proto/metadata.proto, inside an envelope that names type and version.

The way of each field is worked out once, at import, from the types of the record classes: a record that has
no message, or a field the message lacks, fails there and not in a cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from google.protobuf.message import DecodeError, Message

from rookery.core.metadata import records as r
from rookery.core.metadata.records import Record
from rookery.proto import metadata_pb2 as pb

Convert = Callable[[Any], Any]


class RecordError(Exception):
    """These bytes are no metadata record this version understands."""


def encode(record: Record) -> bytes:
    """The value that goes into the log."""
    form = _BY_CLASS[type(record)]
    body = {}
    for field in form.fields:
        value = getattr(record, field.name)
        if value is not None:
            body[field.name] = field.to_message(value) if field.to_message else value
    envelope = pb.MetadataRecord(version=record.version)
    getattr(envelope, form.name).CopyFrom(form.message(**body))
    return envelope.SerializeToString(deterministic=True)


def decode(value: bytes) -> Record:
    """The record in `value`; raises RecordError for anything this version does not know."""
    try:
        envelope = pb.MetadataRecord.FromString(value)
    except DecodeError as error:
        raise RecordError(f"{len(value)} bytes are no metadata record: {error}") from error
    name = envelope.WhichOneof("record")
    if name is None:
        raise RecordError("the metadata record is of a type this version does not know; upgrade this node")
    form = _BY_NAME[name]
    if envelope.version > form.record.version:
        raise RecordError(
            f"{form.record.__name__} has version {envelope.version}, this node understands "
            f"{form.record.version} and below; upgrade this node"
        )
    try:
        return form.read(getattr(envelope, name))
    except ValueError as error:
        raise RecordError(f"{form.record.__name__} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    to_message: Convert | None  # None: as it is
    from_message: Convert | None
    optional: bool


@dataclass(frozen=True, slots=True)
class _Form:
    """How one class of records is written."""

    name: str
    record: type[Record]
    message: Callable[..., Message]
    fields: tuple[_Field, ...]

    def read(self, body: Any) -> Record:
        values = {}
        for field in self.fields:
            if field.optional and not body.HasField(field.name):
                continue
            value = getattr(body, field.name)
            values[field.name] = field.from_message(value) if field.from_message else value
        return self.record(**values)


def _to_uuids(value: tuple[UUID, ...]) -> list[bytes]:
    return [item.bytes for item in value]


def _from_uuids(value: Any) -> tuple[UUID, ...]:
    return tuple([UUID(bytes=item) for item in value])


def _converters(hint: Any, optional: bool) -> tuple[Convert | None, Convert | None]:
    """How a field of type `hint` gets into its message and back."""
    if hint is UUID:
        return (lambda value: value.bytes), (lambda value: UUID(bytes=value))
    if get_origin(hint) is not tuple:
        return None, None
    item = get_args(hint)[0]
    if item is UUID and optional:
        return (lambda value: pb.Uuids(ids=_to_uuids(value))), (lambda value: _from_uuids(value.ids))
    if item is UUID:
        return _to_uuids, _from_uuids
    if item is int and optional:
        return (lambda value: pb.NodeIds(ids=value)), (lambda value: tuple(value.ids))
    if item is int:
        return None, tuple
    message = getattr(pb, item.__name__)  # a named tuple with a message of the same name
    return (
        lambda value: [message(**_set_fields(part)) for part in value],
        lambda value: tuple([_from_part(item, part) for part in value]),
    )


def _set_fields(part: Any) -> dict[str, Any]:
    return {name: value for name, value in part._asdict().items() if value is not None}


def _from_part(item: Any, part: Any) -> Any:
    return item(**{name: _present(part, name) for name in item._fields})


def _present(part: Any, name: str) -> Any:
    field = part.DESCRIPTOR.fields_by_name[name]
    return None if field.has_presence and not part.HasField(name) else getattr(part, name)


def _form(name: str, record: type[Record]) -> _Form:
    hints = get_type_hints(record)
    message = getattr(pb, record.__name__)
    known = set(message.DESCRIPTOR.fields_by_name)
    described = []
    for field in fields(record):
        hint = hints[field.name]
        optional = get_origin(hint) in (Union, UnionType)
        if optional:
            hint = get_args(hint)[0]
        described.append(_Field(field.name, *_converters(hint, optional), optional))
    if known != {field.name for field in described}:
        raise TypeError(f"{record.__name__} and its message in metadata.proto have different fields")
    return _Form(name, record, message, tuple(described))


def _record_class(field: Any) -> type[Record]:
    found: type[Record] = getattr(r, field.message_type.name)
    return found


_BY_NAME = {
    field.name: _form(field.name, _record_class(field))
    for field in pb.MetadataRecord.DESCRIPTOR.oneofs_by_name["record"].fields
}
_BY_CLASS: dict[type[Record], _Form] = {form.record: form for form in _BY_NAME.values()}
