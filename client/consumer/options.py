"""The options of the consumer, by Kafka's names, and what they mean together."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rookery.client.consumer.assignors import ASSIGNORS
from rookery.client.errors import ConfigurationError
from rookery.client.options import (
    LONG_MAX,
    Boolean,
    Int,
    Object,
    Option,
    Settings,
    String,
    WordList,
    contradiction,
    int32,
    read_options,
    table_with_common,
)
from rookery.client.serializers import is_serializer

CLIENT = "Consumer"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def reset_duration_ms(text: str) -> int | None:
    """The milliseconds of ``by_duration:PT1H``; None if the text is not of that form."""
    head, _, iso = text.partition(":")
    found = _DURATION.fullmatch(iso)
    if head != "by_duration" or found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds() * 1000)


def _is_reset(value: Any) -> bool:
    return isinstance(value, str) and (
        value in ("earliest", "latest", "none") or reset_duration_ms(value) is not None
    )


_DESERIALIZER = Object("a function from bytes, or one of bytes, str, json", is_serializer)

GROUP_ID = Option(
    "group.id", String(), "", "The consumer group. Without one, partitions are assigned by hand."
)
GROUP_INSTANCE_ID = Option(
    "group.instance.id",
    String(),
    "",
    "Makes the member static: a restart within the session moves no partitions.",
)
GROUP_PROTOCOL = Option(
    "group.protocol",
    String(("consumer", "classic")),
    "consumer",
    "Protocol of the group. If not set: consumer (KIP-848) where brokers have it and no option of classic is set.",
)
GROUP_REMOTE_ASSIGNOR = Option(
    "group.remote.assignor", String(), "", "The coordinator's assignor (uniform, range); empty: its default."
)
PARTITION_ASSIGNMENT_STRATEGY = Option(
    "partition.assignment.strategy",
    WordList(tuple(ASSIGNORS)),
    ("range", "cooperative-sticky"),
    "Assignors of the classic protocol, the best liked first.",
)
SESSION_TIMEOUT_MS = Option(
    "session.timeout.ms",
    int32(1),
    45_000,
    "Classic protocol: a member without heartbeats for so long is removed.",
)
HEARTBEAT_INTERVAL_MS = Option(
    "heartbeat.interval.ms", int32(1), 3_000, "Classic protocol: time between heartbeats."
)
MAX_POLL_INTERVAL_MS = Option(
    "max.poll.interval.ms",
    int32(1),
    300_000,
    "Longest time between two polls; after it the member leaves the group.",
)
MAX_POLL_RECORDS = Option("max.poll.records", int32(1), 500, "Most records that one poll or getmany returns.")
AUTO_OFFSET_RESET: Option[str] = Option(
    "auto.offset.reset",
    Object("earliest, latest, none or by_duration:<ISO 8601>, such as by_duration:PT1H,", _is_reset),
    "latest",
    "Where to begin without a committed offset, or with one out of range.",
)
ENABLE_AUTO_COMMIT = Option(
    "enable.auto.commit",
    Boolean(),
    True,
    "Commit the positions of records whose processing is over, now and then.",
)
AUTO_COMMIT_INTERVAL_MS = Option("auto.commit.interval.ms", int32(1), 5_000, "How often.")
ISOLATION_LEVEL = Option(
    "isolation.level",
    String(("read_uncommitted", "read_committed")),
    "read_uncommitted",
    "Whether records of open and aborted transactions are read.",
)
FETCH_MIN_BYTES = Option("fetch.min.bytes", int32(0), 1, "A fetch is answered when so many bytes are there.")
FETCH_MAX_WAIT_MS = Option("fetch.max.wait.ms", int32(0), 500, "Or after so long.")
FETCH_MAX_BYTES = Option(
    "fetch.max.bytes", int32(1), 52_428_800, "Most bytes fetched and not yet handed out."
)
MAX_PARTITION_FETCH_BYTES = Option(
    "max.partition.fetch.bytes", int32(1), 1_048_576, "Most bytes of one partition in one answer."
)
CHECK_CRCS = Option("check.crcs", Boolean(), True, "Whether the checksums of batches are checked.")
CLIENT_RACK = Option(
    "client.rack", String(), "", "Where the consumer is: it reads from a replica in the same rack."
)
ALLOW_AUTO_CREATE_TOPICS = Option(
    "allow.auto.create.topics", Boolean(), True, "Whether brokers may create a topic that is subscribed to."
)
EXCLUDE_INTERNAL_TOPICS = Option(
    "exclude.internal.topics", Boolean(), True, "Whether a pattern leaves out internal topics."
)
KEY_DESERIALIZER: Option[Any] = Option("key.deserializer", _DESERIALIZER, None, "Makes keys of bytes.")
VALUE_DESERIALIZER: Option[Any] = Option("value.deserializer", _DESERIALIZER, None, "Makes values of bytes.")
ON_DESERIALIZE_ERROR = Option(
    "on.deserialize.error",
    String(("raise", "skip", "dead-letter", "yield")),
    "raise",
    "What happens to a record that cannot be deserialized.",
)
DEAD_LETTER_TOPIC = Option("dead.letter.topic", String(), "", "Where such records go with dead-letter.")
CLOSE_TIMEOUT_MS = Option("close.timeout.ms", Int(0, LONG_MAX), 30_000, "Longest time that close() takes.")

TABLE = table_with_common(vars())
CLASSIC_ONLY = (PARTITION_ASSIGNMENT_STRATEGY, SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS)
NEW_ONLY = (GROUP_REMOTE_ASSIGNOR,)


def consumer_settings(keywords: Mapping[str, Any], dotted: Mapping[str, Any] | None) -> Settings:
    """The settings of a consumer. Raises ConfigurationError for what is unknown, wrong or contradicting."""
    settings = read_options(CLIENT, TABLE, keywords, dotted)
    _check_group(settings)
    if settings[ON_DESERIALIZE_ERROR] == "dead-letter" and not settings[DEAD_LETTER_TOPIC]:
        raise ConfigurationError(
            f"{CLIENT}: on.deserialize.error=dead-letter needs dead_letter_topic", DEAD_LETTER_TOPIC.name
        )
    return settings


def _check_group(settings: Settings) -> None:
    if not settings[GROUP_ID]:
        for option in (GROUP_INSTANCE_ID, GROUP_PROTOCOL, GROUP_REMOTE_ASSIGNOR, *CLASSIC_ONLY):
            if settings.is_set(option):
                raise ConfigurationError(f"{CLIENT}: {option.name} needs group_id", option.name)
        if settings.is_set(ENABLE_AUTO_COMMIT) and settings[ENABLE_AUTO_COMMIT]:
            raise ConfigurationError(
                f"{CLIENT}: enable.auto.commit=true needs group_id", ENABLE_AUTO_COMMIT.name
            )
    given = settings.is_set(GROUP_PROTOCOL)
    if given and settings[GROUP_PROTOCOL] == "consumer":
        for option in CLASSIC_ONLY:
            if settings.is_set(option):
                raise contradiction(
                    CLIENT,
                    f"{option.name}={settings[option]}",
                    "group.protocol=consumer",
                    "only classic groups have it",
                )
    if settings[GROUP_REMOTE_ASSIGNOR] and given and settings[GROUP_PROTOCOL] == "classic":
        raise contradiction(
            CLIENT,
            f"group.remote.assignor={settings[GROUP_REMOTE_ASSIGNOR]}",
            "group.protocol=classic",
            "assignors of classic groups are set by partition.assignment.strategy",
        )
    if settings[HEARTBEAT_INTERVAL_MS] >= settings[SESSION_TIMEOUT_MS]:
        raise contradiction(
            CLIENT,
            f"heartbeat.interval.ms={settings[HEARTBEAT_INTERVAL_MS]}",
            f"session.timeout.ms={settings[SESSION_TIMEOUT_MS]}",
            "several heartbeats must fit into a session",
        )


def protocols(settings: Settings) -> tuple[str, ...]:
    """The group protocols to try, in this order."""
    if settings.is_set(GROUP_PROTOCOL):
        return (settings[GROUP_PROTOCOL],)
    if any(settings.is_set(option) for option in CLASSIC_ONLY):
        return ("classic",)
    if any(settings.is_set(option) for option in NEW_ONLY):
        return ("consumer",)
    return ("consumer", "classic")
