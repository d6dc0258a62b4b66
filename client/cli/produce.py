"""`rookery produce`: one record a line, from standard input or a file."""

import argparse
import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from rookery.client.cli.common import add_bootstrap, with_cluster
from rookery.client.errors import CliError, UsageError
from rookery.client.sender import Outgoing, Sender
from rookery.core.net.cluster import Cluster
from rookery.core.wire.records import Codec, RecordHeader

T = TypeVar("T")


async def interruptible(call: Callable[[], T]) -> T:
    """What `call` returns, in a thread that nobody waits for: unlike with asyncio's own threads, Ctrl-C ends a command
    whose `call` (a read from a terminal or a pipe) never returns."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if not result.done():
            result.set_exception(error) if error is not None else result.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        value, error = None, None
        try:
            value = call()
        except Exception as failure:
            error = failure
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name="blocking", daemon=True).start()
    return await result


READ_BYTES = 64 * 1024
REACH_S = 30.0
SILENT_S = 2.0
"""A wait that lasts longer is explained, and again each time this has passed."""
ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("produce", help="write records, one a line")
    parser.add_argument("topic")
    parser.add_argument("-k", "--key", help="key of every record")
    parser.add_argument("--key-separator", metavar="TEXT", help="what stands between key and value in a line")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("-p", "--partition", type=int, help="write to this partition only")
    parser.add_argument("--file", type=Path, help="read from this file instead of standard input")
    parser.add_argument("--acks", choices=list(ACKS), default="all")
    parser.add_argument("--compression", choices=[codec.name.lower() for codec in Codec], default="none")
    add_bootstrap(parser)
    parser.set_defaults(run=with_cluster(_produce))


def outgoing(line: bytes, arguments: argparse.Namespace, headers: list[RecordHeader]) -> Outgoing:
    """The record of one line."""
    value = line.rstrip(b"\r\n")
    key = arguments.key.encode() if arguments.key is not None else None
    if arguments.key_separator:
        head, found, rest = value.partition(arguments.key_separator.encode())
        key, value = (head, rest) if found else (key, value)
    return Outgoing(value=value, key=key, headers=headers, partition=arguments.partition)


def parse_headers(texts: list[str]) -> list[RecordHeader]:
    headers = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--header {text!r}: NAME=VALUE is needed")
        headers.append(RecordHeader(name, value.encode()))
    return headers


class Waiting:
    """Says why nothing happens, when nothing happens for a while."""

    def __init__(self) -> None:
        self._since: float | None = None

    def retried(self, why: Exception) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._since > SILENT_S:
            print(f"rookery: waiting, since: {why}", file=sys.stderr, flush=True)
            self._since = now

    def went_on(self) -> None:
        self._since = None


async def lines(source: int) -> AsyncIterator[list[bytes]]:
    """The lines of a file descriptor, as they come: one from a terminal, many from a file."""
    rest = b""
    while data := await interruptible(lambda: os.read(source, READ_BYTES)):
        *whole, rest = (rest + data).split(b"\n")
        if whole:
            yield whole
    if rest:
        yield [rest]


async def _say_if_new(cluster: Cluster, topic: str) -> None:
    """A topic that is not there is created by the first record, which should not happen by a typing error unnoticed."""
    known = await cluster.retrying(lambda: cluster.refresh([topic]), REACH_S)
    if topic not in known.topics:
        view = await cluster.topic(topic, create=True)
        print(f"created topic {topic} with {len(view.partitions)} partition(s): there was none", file=sys.stderr)


async def _produce(cluster: Cluster, arguments: argparse.Namespace) -> None:
    headers = parse_headers(arguments.header)
    sender = Sender(
        cluster, arguments.topic, acks=ACKS[arguments.acks], codec=Codec[arguments.compression.upper()]
    )
    waiting = Waiting()
    cluster.on_retry = waiting.retried
    try:
        source = os.open(arguments.file, os.O_RDONLY) if arguments.file else sys.stdin.fileno()
    except OSError as error:
        raise CliError(f"--file: {error}") from error
    written = 0
    async for chunk in lines(source):
        if not written:
            await _say_if_new(cluster, arguments.topic)
        written += len(await sender.send([outgoing(line, arguments, headers) for line in chunk]))
        waiting.went_on()
    print(f"wrote {written} record(s) to {arguments.topic}", file=sys.stderr)
