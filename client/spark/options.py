"""The options of source and sink, under the names and with the defaults of Spark's own Kafka connector."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rookery.client.spark.kafka_options import (
    PREFIX,
    Connecting,
    Fetching,
    KafkaOptions,
    OptionError,
    Producing,
    boolean,
    duration_ms,
    number,
    partition_lists,
    partition_numbers,
)
from rookery.client.spark.places import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    InAllPartitions,
    Place,
    TopicPartition,
    show,
)
from rookery.client.spark.schema import DDL

SELECTIONS = ("subscribe", "subscribePattern", "assign")
STARTS = ("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp")
ENDS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
STREAM_ONLY = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
KNOWN = (
    *SELECTIONS,
    *STARTS,
    *ENDS,
    *STREAM_ONLY,
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which partitions to read: of topics by name, of topics by pattern, or the partitions themselves."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    @property
    def option(self) -> str:
        """The option that selects them."""
        return "assign" if self.partitions else "subscribe" if self.topics else "subscribePattern"

    def check(self, named: Iterable[TopicPartition], option: str) -> None:
        """Refuse partitions named by an option that are not selected."""
        if self.partitions:
            strange = set(named) - set(self.partitions)
        elif self.topics:
            strange = {(topic, partition) for topic, partition in named if topic not in self.topics}
        else:
            return
        if strange:
            raise OptionError(f"option {option!r} names partitions that are not read: {show(strange)}")


@dataclass(frozen=True, slots=True)
class Admission:
    """Limits of one micro-batch."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_max_ms: int = 15 * 60 * 1000
    bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one read."""

    connecting: Connecting
    fetching: Fetching
    selection: Selection
    starting: Place
    ending: Place
    latest_if_no_match: bool
    fail_on_data_loss: bool
    partitions_min: int | None
    records_per_partition_max: int | None
    admission: Admission
    include_headers: bool
    poll_timeout_s: float
    lookup_retries: int
    lookup_pause_s: float
    partitions_ttl_s: float


class GivenOptions:
    """Options by name, case-insensitive."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        self._values = {
            key.lower(): str(value) for key, value in options.items() if not key.lower().startswith(PREFIX)
        }
        names = {name.lower(): name for name in known}
        for key in sorted(self._values.keys() - names.keys()):
            close = difflib.get_close_matches(key, names, n=1)
            hint = f"; {names[close[0]]!r} is one" if close else ""
            raise OptionError(f"there is no option {key!r}{hint}")

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str, default: str) -> str:
        return self._values.get(name.lower(), default)

    def number(self, name: str, default: int, least: int = 1) -> int:
        return number(name, self.text(name, str(default)), least)

    def number_or_none(self, name: str) -> int | None:
        return number(name, self.text(name, "")) if name in self else None

    def boolean(self, name: str, default: bool) -> bool:
        return boolean(name, self.text(name, str(default)))


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a batch or streaming read; OptionError names the wrong one."""
    given = GivenOptions(options, KNOWN)
    _refuse_wrong_kind(given, streaming)
    selection = _selection(given)
    starting = _place(given, STARTS, InAllPartitions(LATEST if streaming else EARLIEST))
    ending = _place(given, ENDS, InAllPartitions(LATEST))
    _check_places(selection, starting, ending, streaming)
    strategy = given.text("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(
            f"option 'startingOffsetsByTimestampStrategy' is one of error, latest, not {strategy!r}"
        )
    kafka = KafkaOptions(options)
    result = SourceOptions(
        connecting=kafka.connecting(),
        fetching=kafka.fetching(),
        selection=selection,
        starting=starting,
        ending=ending,
        latest_if_no_match=strategy == "latest",
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        partitions_min=given.number_or_none("minPartitions"),
        records_per_partition_max=given.number_or_none("maxRecordsPerPartition"),
        admission=_admission(given),
        include_headers=given.boolean("includeHeaders", False),
        poll_timeout_s=given.number("kafkaConsumer.pollTimeoutMs", 120_000) / 1000,
        lookup_retries=given.number("fetchOffset.numRetries", 3, least=0),
        lookup_pause_s=given.number("fetchOffset.retryIntervalMs", 1000, least=0) / 1000,
        partitions_ttl_s=_ttl_ms(given) / 1000,
    )
    kafka.warn_of_unused()
    return result


def includes_headers(options: Mapping[str, str]) -> bool:
    """Whether there is a column for headers."""
    return GivenOptions(options, KNOWN).boolean("includeHeaders", False)


def _refuse_wrong_kind(given: GivenOptions, streaming: bool) -> None:
    for name in ENDS if streaming else STREAM_ONLY:
        if name in given:
            kind = "streaming" if streaming else "batch"
            raise OptionError(f"option {name!r} has no meaning in a {kind} query")


def _selection(given: GivenOptions) -> Selection:
    chosen = [name for name in SELECTIONS if name in given]
    if len(chosen) != 1:
        found = " and ".join(map(repr, chosen)) or "none of them"
        raise OptionError(f"one of the options 'subscribe', 'subscribePattern', 'assign' is needed, got {found}")
    name = chosen[0]
    text = given.text(name, "").strip()
    if name == "assign":
        return Selection(partitions=partition_lists(name, text))
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"option {name!r}: {text!r} is no regular expression: {error}") from None
        if not text:
            raise OptionError(f"option {name!r} is empty")
        return Selection(pattern=text)
    topics = tuple(dict.fromkeys(filter(None, (each.strip() for each in text.split(",")))))
    if not topics:
        raise OptionError(f"option {name!r} names no topic")
    return Selection(topics=topics)


def _place(given: GivenOptions, names: tuple[str, str, str], default: Place) -> Place:
    """One time for all partitions overrides times by partition, which override offsets."""
    offsets, times, time = names
    if time in given:
        return AtTime(given.number(time, 0, least=0))
    if times in given:
        found = partition_numbers(times, given.text(times, ""))
        if min(found.values()) < 0:
            raise OptionError(f"option {times!r} has a time before 1970")
        return AtTimes(found)
    if offsets not in given:
        return default
    text = given.text(offsets, "").strip()
    word = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if word is not None:
        return InAllPartitions(word)
    if not text.startswith("{"):
        raise OptionError(f"option {offsets!r} is earliest, latest or JSON, not {text!r}")
    found = partition_numbers(offsets, text)
    if min(found.values()) < EARLIEST:
        raise OptionError(f"option {offsets!r} has an offset below -2")
    return AtOffsets(found)


def _check_places(selection: Selection, starting: Place, ending: Place, streaming: bool) -> None:
    for names, place in ((STARTS, starting), (ENDS, ending)):
        if isinstance(place, AtOffsets):
            selection.check(place.offsets, names[0])
        elif isinstance(place, AtTimes):
            selection.check(place.times, names[1])
    if not streaming and _mentions(starting, LATEST):
        raise OptionError("option 'startingOffsets' cannot be latest (-1) in a batch query: it would read nothing")
    if _mentions(ending, EARLIEST):
        raise OptionError("option 'endingOffsets' cannot be earliest (-2): it would read nothing")


def _mentions(place: Place, mark: int) -> bool:
    match place:
        case InAllPartitions(found):
            return found == mark
        case AtOffsets(offsets):
            return mark in offsets.values()
    return False


def _ttl_ms(given: GivenOptions) -> int:
    name = "partition.metadata.cache.ttl.ms"
    value = given.number(name, -1, least=-1)
    if value == 0:
        raise OptionError(f"option {name!r} is -1 (never keep the list) or 1 at least, not 0")
    return value


def _admission(given: GivenOptions) -> Admission:
    result = Admission(
        given.number_or_none("maxOffsetsPerTrigger"),
        given.number_or_none("minOffsetsPerTrigger"),
        duration_ms("maxTriggerDelay", given.text("maxTriggerDelay", "15m")),
        given.number_or_none("maxBytesPerTrigger"),
    )
    least, most = result.offsets_min, result.offsets_max
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"option 'minOffsetsPerTrigger' ({least}) is above 'maxOffsetsPerTrigger' ({most})"
        )
    if "maxTriggerDelay" in given and least is None:
        raise OptionError("option 'maxTriggerDelay' needs 'minOffsetsPerTrigger'")
    return result


EXACTLY_ONCE = "exactly_once"
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
    exactly_once: bool = False


def sink_options(
    options: Mapping[str, str], columns: Iterable[tuple[str, str]], *, streaming: bool = False
) -> SinkOptions:
    """The parsed options; refuses columns, by (name, type), that cannot be written."""
    given = GivenOptions(options, ("topic", "includeHeaders", EXACTLY_ONCE, *SPARK_OPTIONS))
    topic = given.text("topic", "").strip() or None
    if "topic" in given and topic is None:
        raise OptionError("option 'topic' is empty")
    _check_columns(dict(columns), topic)
    kafka = KafkaOptions(options)
    given.boolean("includeHeaders", False)  # headers are always written, as by Spark's own sink
    exactly_once = given.boolean(EXACTLY_ONCE, False)
    result = SinkOptions(kafka.connecting(), kafka.producing(), topic, exactly_once)
    if exactly_once:
        _check_exactly_once(result, streaming)
    kafka.warn_of_unused()
    return result


def _check_exactly_once(options: SinkOptions, streaming: bool) -> None:
    if not streaming:
        raise OptionError(f"option {EXACTLY_ONCE!r} is for streams: a batch query has no epoch to recognise")
    if options.topic is None:
        raise OptionError(f"option {EXACTLY_ONCE!r} needs the option 'topic': the epochs are kept beside that topic")
    if not options.producing.idempotent:
        raise OptionError(f"option {EXACTLY_ONCE!r} needs 'kafka.acks' to be all and 'kafka.enable.idempotence' true")


def _check_columns(columns: Mapping[str, str], topic: str | None) -> None:
    if "value" not in columns:
        raise OptionError(f"a column 'value' is needed, there are {', '.join(columns)}")
    if topic is None and "topic" not in columns:
        raise OptionError("there is no topic: set the option 'topic' or add a column 'topic'")
    for name, kinds in COLUMNS.items():
        if name in columns and columns[name] not in kinds:
            raise OptionError(f"column {name!r} is {columns[name]}, it must be {' or '.join(kinds)}")
