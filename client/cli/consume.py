"""`rookery consume`: print records of a topic, from the beginning, the end, an offset or a time."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from rookery.client.cli.common import add_bootstrap, with_cluster
from rookery.client.errors import NotFoundError, UsageError
from rookery.client.reader import EARLIEST, LATEST, PartitionReader, offset_at
from rookery.core.net.cluster import Cluster
from rookery.core.wire.records import Record


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("consume", help="read records")
    parser.add_argument("topic")
    parser.add_argument("-p", "--partition", type=int, action="append", help="only these partitions")
    parser.add_argument(
        "--from",
        dest="start",
        default="start",
        help="start, end, an offset, -N before the end, or @2026-05-01T12:00 (start)",
    )
    parser.add_argument("-n", "--count", type=int, help="stop after so many records")
    parser.add_argument("-f", "--follow", action="store_true", help="wait for more at the end")
    parser.add_argument("-o", "--output", choices=("value", "line", "jsonl"), default="value")
    parser.add_argument(
        "--isolation-level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="read_committed hides what transactions have not committed (read_uncommitted)",
    )
    add_bootstrap(parser)
    parser.set_defaults(run=with_cluster(_consume))


async def _start_offset(cluster: Cluster, topic: str, partition: int, start: str) -> int:
    if start == "start":
        return await offset_at(cluster, topic, partition, EARLIEST)
    latest = await offset_at(cluster, topic, partition, LATEST)
    if start == "end":
        return latest
    if start.startswith("@"):
        try:
            moment = datetime.fromisoformat(start[1:])
        except ValueError as error:
            raise UsageError(f"--from {start}: {error}") from error
        found = await offset_at(cluster, topic, partition, int(moment.timestamp() * 1000))
        return latest if found < 0 else found
    try:
        number = int(start)
    except ValueError:
        raise UsageError(f"--from {start}: start, end, an offset, -N or @time is needed") from None
    return (
        number if number >= 0 else max(latest + number, await offset_at(cluster, topic, partition, EARLIEST))
    )


def _as_value(partition: int, record: Record) -> bytes:
    return record.value if record.value is not None else b""


def _as_line(partition: int, record: Record) -> bytes:
    key = record.key.decode(errors="replace") if record.key is not None else "-"
    value = record.value.decode(errors="replace") if record.value is not None else "(null)"
    return f"{partition} {record.offset} {record.timestamp} {key} {value}".encode()


def _as_json(partition: int, record: Record) -> bytes:
    def text(data: bytes | None) -> str | None:
        return None if data is None else data.decode(errors="replace")

    fields = {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[header.key, text(header.value)] for header in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode()


FORMATS: dict[str, Callable[[int, Record], bytes]] = {
    "value": _as_value,
    "line": _as_line,
    "jsonl": _as_json,
}


class _Printer:
    """Writes records until the count is reached."""

    def __init__(self, output: str, count: int | None) -> None:
        self._format = FORMATS[output]
        self._left = count

    @property
    def done(self) -> bool:
        return self._left is not None and self._left <= 0

    def show(self, partition: int, record: Record) -> None:
        if self.done:
            return
        sys.stdout.buffer.write(self._format(partition, record) + b"\n")
        if self._left is not None:
            self._left -= 1

    def flush(self) -> None:
        sys.stdout.buffer.flush()


async def _consume(cluster: Cluster, arguments: argparse.Namespace) -> None:
    view = await cluster.topic(arguments.topic)
    partitions = arguments.partition or sorted(view.partitions)
    for partition in partitions:
        if partition not in view.partitions:
            raise NotFoundError(f"{arguments.topic} has no partition {partition}")
    printer = _Printer(arguments.output, arguments.count)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_read(cluster, arguments, partition, printer)) for partition in partitions]
        for done in asyncio.as_completed(tasks):
            await done
            if printer.done:
                for task in tasks:
                    task.cancel()
                break


async def _read(cluster: Cluster, arguments: argparse.Namespace, partition: int, printer: _Printer) -> None:
    """Print one partition up to where it ended when this began, or for ever with --follow."""
    begin = await _start_offset(cluster, arguments.topic, partition, arguments.start)
    waits = arguments.follow or arguments.count is not None
    committed = arguments.isolation_level == "read_committed"
    end = await offset_at(cluster, arguments.topic, partition, LATEST, read_committed=committed)
    reader = PartitionReader(cluster, arguments.topic, partition, begin, read_committed=committed)
    while not printer.done and (waits or reader.position < end):
        for record in (await reader.fetch()).records:
            printer.show(partition, record)
        printer.flush()
