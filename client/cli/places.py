"""How commands name partitions, times and offsets."""

import json
from datetime import datetime, timedelta
from pathlib import Path

from rookery.client.admin import Admin
from rookery.client.errors import UsageError
from rookery.client.types import TopicPartition

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


async def chosen(admin: Admin, names: list[str]) -> list[TopicPartition]:
    """``orders`` is all its partitions, ``orders:0,2`` two of them."""
    found: list[TopicPartition] = []
    for name in names:
        topic, colon, numbers = name.partition(":")
        have = {each.number for each in (await admin.describe_topic(topic)).partitions}
        try:
            wanted = {int(number) for number in numbers.split(",")} if colon else have
        except ValueError:
            raise UsageError(f"{name}: NAME or NAME:0,1,... is needed") from None
        if wanted - have:
            raise UsageError(f"{name}: {topic} has partitions 0 to {max(have)}")
        found += [TopicPartition(topic, number) for number in sorted(wanted)]
    return found


def instant_ms(option: str, text: str) -> int:
    """A time like 2026-01-31T12:00:00, here where no zone is named, in milliseconds."""
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except ValueError:
        raise UsageError(f"{option} {text}: a time like 2026-01-31T12:00:00 is needed") from None


def since_ms(moment: str | None, age: str | None) -> int:
    """The time that --to-datetime or --by-duration names."""
    if age is None:
        return instant_ms("--to-datetime", str(moment))
    if age[-1:] not in UNITS or not age[:-1].isdigit():
        raise UsageError(f"--by-duration {age}: a number and s, m, h or d is needed, e.g. 15m")
    ago = timedelta(seconds=int(age[:-1]) * UNITS[age[-1]])
    return int((datetime.now().astimezone() - ago).timestamp() * 1000)


def trim_target(text: str) -> int | str:
    """Where a trim ends: an offset, a negative number of records before the end, "end", or a time without its ``@``."""
    if text == "end":
        return text
    if text.startswith("@"):
        return text[1:]
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--before {text}: an offset, -N, @time or end is needed") from None


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """What `rookery group export` writes, or the file of kafka-delete-records.sh, which has them in `partitions`."""
    try:
        rows = json.loads(path.read_text())
        rows = rows["partitions"] if isinstance(rows, dict) else rows
        return {TopicPartition(row["topic"], int(row["partition"])): int(row["offset"]) for row in rows}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path}: rows of topic, partition and offset are needed ({error!r})") from error
