"""Records ↔ bytes: messages of proto/metadata.proto, inside an envelope that names type and version."""

from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from rookery.core.metadata import records as r
from rookery.core.metadata.features import RELEASE, Release
from rookery.core.metadata.protobuf import Mapping
from rookery.core.metadata.records import Record
from rookery.proto import metadata_pb2 as pb


class RecordError(Exception):
    """These bytes are no metadata record this version understands."""


def encode(record: Record, level: int | None = None, release: Release = RELEASE) -> bytes:
    """The value that goes into the log at `level` of metadata.version (by default the release's newest); equal
    records give equal bytes. UNSUPPORTED_VERSION where the record cannot be written at that level."""
    name, mapping = _BY_CLASS[type(record)]
    version = release.record_version(record, release.levels.max_version if level is None else level)
    envelope = pb.MetadataRecord(version=version, **{name: mapping.to_message(record)})
    return envelope.SerializeToString(deterministic=True)


def decode(value: bytes, release: Release = RELEASE) -> Record:
    """The record in `value`; raises RecordError for anything the release does not know."""
    try:
        envelope = pb.MetadataRecord.FromString(value)
    except DecodeError as error:
        raise RecordError(f"{len(value)} bytes are no metadata record: {error}") from error
    name = envelope.WhichOneof("record")
    if name is None:
        raise RecordError("the metadata record is of a type this version does not know; upgrade this node")
    mapping = _BY_NAME[name]
    known = release.newest(mapping.values)
    if envelope.version > known:
        raise RecordError(
            f"{mapping.values.__name__} has version {envelope.version}, this node understands {known} "
            "and below; upgrade this node"
        )
    try:
        return mapping.from_message(getattr(envelope, name))
    except ValueError as error:
        raise RecordError(f"{mapping.values.__name__} cannot be read: {error}") from error


def _mapping(field: Any) -> Mapping[Record]:
    message = field.message_type
    return Mapping(getattr(r, message.name), GetMessageClass(message))


_BY_NAME = {
    field.name: _mapping(field) for field in pb.MetadataRecord.DESCRIPTOR.oneofs_by_name["record"].fields
}
_BY_CLASS = {mapping.values: (name, mapping) for name, mapping in _BY_NAME.items()}
