"""The ``kafka.*`` options: settings of a Kafka client that apply here, those refused, and a warning for others. Also
how the values of options are parsed; errors contain the name of the option."""

import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rookery.client.spark.places import TopicPartition
from rookery.core.config.options import ConfigError
from rookery.core.net.client_properties import GUARDED, security_of
from rookery.core.net.cluster import parse_bootstrap
from rookery.core.wire.compression import Codec

_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(-?[0-9]+)\s*([a-z]*)")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_PARTITION = re.compile(r"[0-9]+")
MOST = 2**63 - 1
"""The largest 64-bit number."""


class OptionError(ValueError):
    """An option is wrong, unknown or contradicts another; the message names it."""


def boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option {name!r} is true or false, not {text!r}")
    return text.lower() == "true"


def number(name: str, text: str, least: int = 1, most: int = MOST) -> int:
    if not _NUMBER.fullmatch(text.strip()):
        raise OptionError(f"option {name!r} is a whole number, not {text!r}")
    value = int(text)
    if value < least:
        raise OptionError(f"option {name!r} is {least} at least, not {value}")
    if value > most:
        raise OptionError(f"option {name!r} is {most} at most, not {value}")
    return value


def duration_ms(name: str, text: str) -> int:
    """A time such as 15m, 30s or 500 (milliseconds)."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or (found[2] or "ms") not in _UNITS_MS or int(found[1]) < 0:
        raise OptionError(f"option {name!r} is a time such as 15m, 30s or 500ms, not {text!r}")
    return int(int(found[1]) * _UNITS_MS[found[2] or "ms"])


def partition_numbers(name: str, text: str) -> dict[TopicPartition, int]:
    """``{"topic": {"0": 23}}`` as numbers by partition."""
    wanted = f'option {name!r} is JSON such as {{"topic": {{"0": 23}}}}'
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in _object(wanted, text).items():
        if not isinstance(partitions, dict) or not partitions:
            raise OptionError(f"{wanted}; {topic!r} has no partitions")
        for partition, value in partitions.items():
            if not _PARTITION.fullmatch(partition) or type(value) is not int or abs(value) > MOST:
                raise OptionError(f"{wanted}; {partition!r}: {value!r} under {topic!r} is neither")
            numbers[topic, int(partition)] = value
    if not numbers:
        raise OptionError(f"{wanted}; it names no partition")
    return numbers


def partition_lists(name: str, text: str) -> tuple[TopicPartition, ...]:
    """``{"topic": [0, 1]}`` as partitions."""
    wanted = f'option {name!r} is JSON such as {{"topic": [0, 1]}}'
    partitions: list[TopicPartition] = []
    for topic, numbers in _object(wanted, text).items():
        if not isinstance(numbers, list) or any(type(each) is not int or each < 0 for each in numbers):
            raise OptionError(f"{wanted}; {topic!r} has no list of partition numbers")
        partitions += ((topic, each) for each in numbers)
    if not partitions:
        raise OptionError(f"{wanted}; it names no partition")
    return tuple(sorted(set(partitions)))


def _object(wanted: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{wanted}; {text!r} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise OptionError(f"{wanted}, not {text!r}")
    return value


ALL = -1
DELIVERY_TIMEOUT_S = 120.0
PREFIX = "kafka."
RACK_VARIABLE = "ROOKERY_CLIENT_RACK"
"""The rack of one executor, in its environment: options are the same for all of them."""
INT_MAX = 2**31 - 1
"""The largest number among a Kafka client's settings."""
REFUSED = {
    "auto.offset.reset": "use startingOffsets instead",
    "key.deserializer": "keys are always binary; convert them with DataFrame operations",
    "value.deserializer": "values are always binary; convert them with DataFrame operations",
    "key.serializer": "keys are strings or binary; convert them with DataFrame operations",
    "value.serializer": "values are strings or binary; convert them with DataFrame operations",
    "enable.auto.commit": "Spark keeps the offsets in its checkpoint",
    "interceptor.classes": "interceptors are not supported",
    "transactional.id": "use exactly_once, which makes one of the query and the partition",
}
IGNORED = {"group.id", "linger.ms", "batch.size", "retries", "session.timeout.ms"}
"""Options of every Kafka client without effect here: no group is joined, and no record waits for others."""


class UnknownKafkaOptionWarning(UserWarning):
    """A ``kafka.*`` option that has no effect."""


@dataclass(frozen=True)
class Connecting:
    """How to reach the cluster."""

    bootstrap: str
    client_id: str = "rookery-spark"
    request_timeout_s: float = 30.0
    security: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The options of TLS and SASL. Files that they name are read where the tasks run."""


@dataclass(frozen=True)
class Fetching:
    """How much a task fetches at once; it holds at most two responses."""

    bytes_max: int = 1 << 20
    wait_ms: int = 500
    read_committed: bool = False
    rack: str = ""
    """Where the tasks run; RACK_VARIABLE in an executor's environment is closer to the truth."""


@dataclass(frozen=True)
class Producing:
    acks: int = ALL
    codec: Codec = Codec.NONE
    request_bytes_max: int = 1 << 20
    delivery_timeout_s: float = DELIVERY_TIMEOUT_S
    idempotent: bool = True
    transaction_timeout_ms: int = 900_000
    """The highest that brokers allow by default: a transaction is open until all tasks of its epoch are done."""


class KafkaOptions:
    """The ``kafka.*`` options of one source or sink. Reading one marks it as used."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = {
            key.lower().removeprefix(PREFIX): value
            for key, value in options.items()
            if key.lower().startswith(PREFIX)
        }
        self._used = set(IGNORED)
        for key in sorted(self._given.keys() & REFUSED.keys()):
            raise OptionError(f"option {PREFIX + key!r} is not supported: {REFUSED[key]}")

    def connecting(self) -> Connecting:
        bootstrap = self._take("bootstrap.servers", "")
        if not bootstrap.strip():
            raise OptionError("option 'kafka.bootstrap.servers' is needed: host:port of some nodes")
        try:
            parse_bootstrap(bootstrap)
        except ValueError as error:
            raise OptionError(f"option 'kafka.bootstrap.servers': {error}") from None
        return Connecting(
            bootstrap,
            self._take("client.id", Connecting.client_id),
            self._number("request.timeout.ms", 30_000) / 1000,
            self._security(),
        )

    def _security(self) -> tuple[tuple[str, str], ...]:
        given = {key: value for key, value in self._given.items() if key.startswith(GUARDED)}
        self._used |= given.keys()
        try:
            security_of(given)
        except ConfigError as error:
            raise OptionError(f"option {PREFIX + error.key!r} cannot be used: {error.allowed}") from None
        return tuple(sorted(given.items()))

    def fetching(self) -> Fetching:
        level = self._choice("isolation.level", ("read_uncommitted", "read_committed"))
        at_once = min(
            self._number("max.partition.fetch.bytes", Fetching.bytes_max),
            self._number("fetch.max.bytes", 50 * Fetching.bytes_max),
        )
        wait_ms = self._number("fetch.max.wait.ms", Fetching.wait_ms, least=0)
        return Fetching(at_once, wait_ms, level == "read_committed", self._take("client.rack", ""))

    def producing(self) -> Producing:
        self._used.add("client.rack")  # writes go to the leader, wherever it is
        acks = self._choice("acks", ("all", "-1", "0", "1"))
        codec = self._choice("compression.type", tuple(each.name.lower() for each in Codec))
        acks_number = ALL if acks == "all" else int(acks)
        return Producing(
            acks_number,
            Codec[codec.upper()],
            self._number("max.request.size", Producing.request_bytes_max),
            self._number("delivery.timeout.ms", int(DELIVERY_TIMEOUT_S * 1000)) / 1000,
            self._idempotent(acks_number == ALL),
            self._number("transaction.timeout.ms", Producing.transaction_timeout_ms),
        )

    def _idempotent(self, all_acknowledge: bool) -> bool:
        """On by default with acks=all; refused if it is set with other acks."""
        wanted = boolean(PREFIX + "enable.idempotence", self._take("enable.idempotence", str(all_acknowledge)))
        if wanted and not all_acknowledge:
            raise OptionError("option 'kafka.enable.idempotence' needs 'kafka.acks' to be all")
        return wanted

    def warn_of_unused(self) -> None:
        for key in sorted(self._given.keys() - self._used):
            warnings.warn(f"option {PREFIX + key!r} has no effect here", UnknownKafkaOptionWarning, stacklevel=2)

    def _take(self, key: str, default: str) -> str:
        self._used.add(key)
        return self._given.get(key, default)

    def _number(self, key: str, default: int, least: int = 1) -> int:
        return number(PREFIX + key, self._take(key, str(default)), least, INT_MAX)

    def _choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """One of the allowed words; the first one is the default."""
        word = self._take(key, allowed[0]).lower()
        if word not in allowed:
            raise OptionError(f"option {PREFIX + key!r} is one of {', '.join(allowed)}, not {word!r}")
        return word
