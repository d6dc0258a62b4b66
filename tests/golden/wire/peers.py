"""The same message through other people's codecs: kio and kafka-python."""

import dataclasses
import datetime
import importlib
import io
import typing
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
from kafka.protocol.api_message import ApiMessage
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Field, Records, Struct

_UTC = datetime.UTC


def plain_name(name: str) -> str:
    """Names without what libraries spell differently: underscores and the unit that kio's types carry."""
    return name.removesuffix("_ms").replace("_", "")


# kio


def kio_class(api: Api[Any, Any], version: int, side: str) -> type:
    """kio has one class per version."""
    kind: Any = EntityType.request if side == "request" else EntityType.response
    where = schema_name_map[api_key_map[api.key]][version][kind]
    module, _, name = where.partition(":")
    found: type = getattr(importlib.import_module(module), name)
    return found


def kio_encode(api: Api[Any, Any], version: int, side: str, message: Struct) -> bytes:
    """Our message, rebuilt from kio's classes and written by kio."""
    cls = kio_class(api, version, side)
    out = io.BytesIO()
    entity_writer(cls)(out, to_kio(cls, message))
    return out.getvalue()


def kio_decode(api: Api[Any, Any], version: int, side: str, data: bytes) -> Any:
    """kio's object for these bytes."""
    reader: Any = entity_reader(kio_class(api, version, side))
    entity, _ = reader(data, 0)
    return entity


def to_kio(cls: type, message: Struct) -> Any:
    """An instance of kio's class with the values of ours."""
    ours = {plain_name(name): (getattr(message, name), declared) for name, declared in message.fields.items()}
    hints = typing.get_type_hints(cls)
    values = {}
    for theirs in dataclasses.fields(cls):
        value, declared = ours[plain_name(theirs.name)]
        if declared.tag is not None and value == declared.default:
            continue
        values[theirs.name] = _kio_value(value, theirs.metadata.get("kafka_type"), hints[theirs.name])
    return cls(**values)


def _kio_value(value: Any, kafka_type: str | None, hint: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return tuple(_kio_value(one, kafka_type, hint) for one in value)
    if isinstance(value, Struct):
        return to_kio(_dataclass_in(hint), value)
    match kafka_type:
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "datetime_i64":
            return datetime.datetime.fromtimestamp(value / 1000, _UTC)
        case "records":
            return bytes(value)
    return value


def _dataclass_in(hint: Any) -> type:
    if dataclasses.is_dataclass(hint):
        return typing.cast(type, hint)
    for inner in typing.get_args(hint):
        if inner is not type(None) and inner is not Ellipsis:
            return _dataclass_in(inner)
    raise TypeError(hint)


# kafka-python


def _kafka_python_messages() -> dict[tuple[int, str], Any]:
    found: dict[tuple[int, str], Any] = {}
    packages = (
        kafka.protocol.admin, kafka.protocol.consumer, kafka.protocol.metadata, kafka.protocol.producer,
        kafka.protocol.sasl,
    )
    for package in packages:
        for one in vars(package).values():
            if isinstance(one, type) and issubclass(one, ApiMessage) and one is not ApiMessage:
                message: Any = one
                found[message.API_KEY, message.type] = message
    return found


_KAFKA_PYTHON = _kafka_python_messages()


def kafka_python_knows(api: Api[Any, Any], version: int) -> bool:
    """kafka-python lacks the APIs that no client of its kind sends."""
    known = _KAFKA_PYTHON.get((api.key, "request"))
    return known is not None and version <= known.max_version


def kafka_python_class(api: Api[Any, Any], side: str) -> Any:
    """kafka-python has one class for all versions."""
    return _KAFKA_PYTHON[api.key, side]


def kafka_python_encode(api: Api[Any, Any], version: int, side: str, message: Struct) -> bytes:
    """Our message, rebuilt from kafka-python's classes and written by kafka-python."""
    cls = kafka_python_class(api, side)
    return bytes(to_kafka_python(cls, cls._struct, version, message).encode(version=version))


def kafka_python_decode(api: Api[Any, Any], version: int, side: str, data: bytes) -> Any:
    """kafka-python's object for these bytes."""
    return kafka_python_class(api, side).decode(data, version=version)


def to_kafka_python(make: Any, struct: Any, version: int, message: Struct) -> Any:
    """An instance of kafka-python's class with the values of ours."""
    theirs = {plain_name(name): field for name, field in struct.fields.items()}
    values = {}
    for name, declared in message.fields.items():
        value = getattr(message, name)
        if version not in declared.versions or (declared.tag is not None and value == declared.default):
            continue
        field = theirs.get(plain_name(name)) or theirs["authorizedoperations"]  # the one it renames
        values[field.name] = _kafka_python_value(value, field, version, declared)
    return make(version=version, **values)


def _kafka_python_value(value: Any, field: Any, version: int, declared: Field) -> Any:
    if isinstance(value, list | tuple):
        return [_kafka_python_value(one, field, version, declared) for one in value]
    if field.type_str == "bitfield":
        return {bit for bit in range(32) if value >> bit & 1}
    if isinstance(value, Struct):
        return to_kafka_python(field.data_class, field, version, value)
    if declared.type is Records and value is not None:
        return bytes(value)
    return value
