"""Parses the values of options; errors contain the option's name."""

import json
import re
from typing import Any

from rookery.client.spark.places import TopicPartition

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
