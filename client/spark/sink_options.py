"""The options and columns of the sink, as those of Spark's own Kafka sink."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rookery.client.spark.kafka_options import Connecting, KafkaOptions, Producing
from rookery.client.spark.option_values import OptionError
from rookery.client.spark.options import Given
from rookery.client.spark.schema import DDL

SPARK_OPTIONS = ("checkpointLocation", "queryName", "outputMode")
"""Options of a streaming write that Spark itself uses."""

COLUMNS = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": (DDL["headers"],),
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    connecting: Connecting
    producing: Producing
    topic: str | None


def sink_options(options: Mapping[str, str], columns: Iterable[tuple[str, str]]) -> SinkOptions:
    """The parsed options; refuses columns, by (name, type), that cannot be written."""
    given = Given(options, ("topic", "includeHeaders", *SPARK_OPTIONS))
    topic = given.text("topic", "").strip() or None
    if "topic" in given and topic is None:
        raise OptionError("option 'topic' is empty")
    _check_columns(dict(columns), topic)
    kafka = KafkaOptions(options)
    given.boolean("includeHeaders", False)  # headers are always written, as by Spark's own sink
    result = SinkOptions(kafka.connecting(), kafka.producing(), topic)
    kafka.warn_of_unused()
    return result


def _check_columns(columns: Mapping[str, str], topic: str | None) -> None:
    if "value" not in columns:
        raise OptionError(f"a column 'value' is needed, there are {', '.join(columns)}")
    if topic is None and "topic" not in columns:
        raise OptionError("there is no topic: set the option 'topic' or add a column 'topic'")
    for name, kinds in COLUMNS.items():
        if name in columns and columns[name] not in kinds:
            raise OptionError(f"column {name!r} is {columns[name]}, it must be {' or '.join(kinds)}")
