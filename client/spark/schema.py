"""The columns of the source, as in Spark's own Kafka source, as Spark's and as Arrow's types."""

from collections.abc import Sequence

import pyarrow as pa

from rookery.client.spark.kafka_options import OptionError

DDL = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
ARROW: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
}


def names(include_headers: bool) -> tuple[str, ...]:
    return tuple(name for name in DDL if include_headers or name != "headers")


def ddl(columns: Sequence[str]) -> str:
    """The columns as Spark's DDL, all nullable."""
    return ", ".join(f"{name} {DDL[name]}" for name in columns)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, ARROW[name]) for name in columns])


def wanted(asked: Sequence[tuple[str, str]], include_headers: bool) -> tuple[str, ...]:
    """The columns of a user's schema, by (name, type): some of ours, in any order."""
    known = names(include_headers)
    for name, kind in asked:
        if name not in known:
            hint = "; it needs the option 'includeHeaders'" if name in DDL else ""
            raise OptionError(f"the schema asks for column {name!r}; there are {', '.join(known)}{hint}")
        if kind != DDL[name]:
            raise OptionError(f"the schema asks for column {name!r} as {kind}, it is {DDL[name]}")
    return tuple(name for name, _ in asked)
