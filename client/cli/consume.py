"""`rookery consume`: print records of a topic, from the beginning, the end, an offset or a time."""

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from typing import Any

from rookery.client.cli.common import OUTPUTS, add_bootstrap, client_options, with_client
from rookery.client.cli.record_rows import RecordRows
from rookery.client.consumer import Consumer
from rookery.client.errors import CliError, NotFoundError, UsageError
from rookery.client.record_format import Format, FormatError, json_line
from rookery.client.types import Record, TopicPartition

COUNT_AT_ONCE = 500
RawRecord = Record[bytes | None, bytes | None]


def _as_value(record: RawRecord) -> bytes:
    return record.value if record.value is not None else b""


def _as_line(record: RawRecord) -> bytes:
    key = record.key.decode(errors="replace") if record.key is not None else "-"
    value = record.value.decode(errors="replace") if record.value is not None else "(null)"
    return f"{record.partition} {record.offset} {record.timestamp} {key} {value}".encode()


FORMATS: dict[str, Callable[[RawRecord], bytes]] = {
    "value": _as_value,
    "line": _as_line,
    "jsonl": json_line,
}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("consume", help="read records")
    parser.add_argument("topic")
    parser.add_argument("-p", "--partition", type=int, action="append", help="only these partitions")
    parser.add_argument(
        "-g", "--group", metavar="NAME", help="join a group: go on at its offsets, commit what was printed"
    )
    parser.add_argument(
        "--from",
        dest="start",
        default="start",
        help="start, end, an offset, -N before the end, or @2026-05-01T12:00 (start); of a group without offsets",
    )
    parser.add_argument("-n", "--count", type=int, help="stop after so many records")
    parser.add_argument("-f", "--follow", action="store_true", help="wait for more at the end")
    parser.add_argument(
        "--until",
        metavar="WHERE",
        help="stop each partition before an offset, or before the first record since @2026-05-01T12:00; waits for it",
    )
    parser.add_argument(
        "-o", "--output", choices=(*FORMATS, *(form for form in OUTPUTS if form not in FORMATS)), default="value",
        help="form of the output (value)",
    )  # fmt: skip
    parser.add_argument(
        "--format", metavar="TEXT", help="print by the verbs of kcat and rpk: '%%t %%p %%o %%k %%v %%h %%T\\n'"
    )
    parser.add_argument(
        "--isolation-level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="read_committed hides what transactions have not committed (read_uncommitted)",
    )
    add_bootstrap(parser)
    parser.set_defaults(run=with_client(_consume))


Start = int | datetime
"""An offset, negative before the end; or a time."""


def parse_start(text: str, option: str = "--from") -> Start | None:
    """Where to begin; None for the end."""
    if text in ("start", "end"):
        return 0 if text == "start" else None
    if text.startswith("@"):
        try:
            return datetime.fromisoformat(text[1:])
        except ValueError as error:
            raise UsageError(f"{option} {text}: {error}") from error
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{option} {text}: start, end, an offset, -N or @time is needed") from None


def parse_until(text: str | None) -> int | datetime | None:
    """Where to end; None for where the partitions end now."""
    if text is None:
        return None
    end = parse_start(text, "--until") if text not in ("start", "end") else None
    if end is None or (isinstance(end, int) and end < 0):
        raise UsageError(f"--until {text}: an offset or @time is needed")
    return end


async def _seek(
    consumer: Consumer, text: str, ends: dict[TopicPartition, int], places: list[TopicPartition]
) -> None:
    start = parse_start(text)
    if isinstance(start, datetime):
        consumer.seek_to_time(start)
        return
    firsts = await consumer.beginning_offsets()
    for place in places:
        first, end = firsts[place], ends[place]
        if start is None:
            offset = end
        elif text == "start":
            offset = first
        elif start < 0:
            offset = max(first, end + start)
        else:
            offset = start
        if not first <= offset <= end:
            held = f"it holds {first} to {end - 1}" if end > first else f"it is empty, {first} is next"
            raise CliError(f"{place} at offset {offset}: {held}")
        consumer.seek(place, offset)


class _Printer:
    """Writes records until the count is reached. A format ends a record itself; values, lines and JSON lines are a line
    each, other outputs are rows."""

    def __init__(self, output: str, format_text: str | None, count: int | None) -> None:
        self._line = FORMATS.get(output)
        self._rows = RecordRows(output)
        try:
            self._format = Format(format_text) if format_text is not None else None
        except FormatError as error:
            raise UsageError(f"--format: {error}") from error
        self._of_rows = self._line is None and self._format is None
        self.left = count
        self._number = 0

    @property
    def done(self) -> bool:
        return self.left is not None and self.left <= 0

    def show(self, record: RawRecord) -> None:
        if self.done:
            return
        self._number += 1
        if self._format is not None:
            text = self._format(record, self._number)
        elif self._line is not None:
            text = self._line(record) + b"\n"
        else:
            text = self._rows.add(record).encode()
        sys.stdout.buffer.write(text)
        if self.left is not None:
            self.left -= 1

    def flush(self) -> None:
        if self._of_rows:
            sys.stdout.buffer.write(self._rows.flush().encode())
        sys.stdout.buffer.flush()

    def close(self) -> None:
        """After the last record, also when somebody interrupts: what was printed is whole."""
        if self._of_rows:
            sys.stdout.buffer.write(self._rows.end().encode())
        self.flush()


async def _consume(arguments: argparse.Namespace) -> None:
    if arguments.group is not None:
        await _consume_in_group(arguments)
    else:
        await _consume_alone(arguments)


async def _consume_in_group(arguments: argparse.Namespace) -> None:
    """Print what the group has not read, up to where its partitions end when this member gets them, or for ever with
    --follow. Offsets are committed after the records are printed: none is skipped, some may be printed twice."""
    if arguments.partition or arguments.until is not None or arguments.start not in ("start", "end"):
        raise UsageError("--group goes with --from start or end, and without --partition and --until")
    options = {
        **client_options(arguments),
        "group.id": arguments.group,
        "isolation.level": arguments.isolation_level,
        "auto.offset.reset": "earliest" if arguments.start == "start" else "latest",
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
    }
    printer = _Printer(arguments.output, arguments.format, arguments.count)
    ends: dict[TopicPartition, int] = {}
    async with Consumer(options) as consumer:
        await consumer.partitions_for(arguments.topic)
        consumer.subscribe([arguments.topic])
        with closing(printer):
            while not printer.done:
                records = await consumer.getmany(max_records=min(printer.left or COUNT_AT_ONCE, COUNT_AT_ONCE))
                for record in records:
                    printer.show(record)
                printer.flush()
                if records:
                    await consumer.commit()
                if not arguments.follow and arguments.count is None and await _is_read(consumer, ends):
                    return


async def _is_read(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    """Whether this member has partitions and read them up to where they ended when it got them."""
    mine = consumer.assignment
    new = mine - ends.keys()
    if new:
        ends.update(await consumer.end_offsets(*new))
    for place in ends.keys() - mine:
        del ends[place]
    reached = [await consumer.position(place) >= end for place, end in list(ends.items())]
    return bool(reached) and all(reached)


async def _consume_alone(arguments: argparse.Namespace) -> None:
    """Print the partitions up to where they ended when this began, or for ever with --follow."""
    options = {
        **client_options(arguments),
        "isolation.level": arguments.isolation_level,
        "auto.offset.reset": "none",
        "allow.auto.create.topics": "false",
    }
    parse_start(arguments.start)
    until = parse_until(arguments.until)
    printer = _Printer(arguments.output, arguments.format, arguments.count)
    async with Consumer(options) as consumer:
        known = await consumer.partitions_for(arguments.topic)
        places = [TopicPartition(arguments.topic, each) for each in arguments.partition or ()] or known
        for place in places:
            if place not in known:
                raise NotFoundError(f"{place.topic} has no partition {place.partition}: it has {len(known)}")
        consumer.assign(places)
        ends = await consumer.end_offsets()
        await _seek(consumer, arguments.start, ends, places)
        with closing(printer):
            await _print(consumer, arguments, printer, ends, until)


async def _print(
    consumer: Consumer,
    arguments: argparse.Namespace,
    printer: _Printer,
    ends: dict[TopicPartition, int],
    until: int | datetime | None,
) -> None:
    follows = arguments.follow or arguments.count is not None
    left = set(consumer.assignment)
    while left and not printer.done:
        for place in list(left):
            position = await consumer.position(place)
            if position >= until if isinstance(until, int) else position >= ends[place] and not (follows or until):
                left.discard(place)
                consumer.pause(place)
        for record in await consumer.getmany() if left else ():
            place = TopicPartition(record.topic, record.partition)
            if until is not None and place in left and _is_past(record, until):
                left.discard(place)
                consumer.pause(place)
            if place in left:
                printer.show(record)
        printer.flush()


def _is_past(record: RawRecord, until: int | datetime) -> bool:
    return record.offset >= until if isinstance(until, int) else record.timestamp >= until.timestamp() * 1000
