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
from random import Random
from typing import Any, TypeVar

from rookery.client.admin import Admin
from rookery.client.cli.common import add_bootstrap, client_options, with_client
from rookery.client.errors import CliError, RetriableError, UsageError
from rookery.client.producer import Delivery, Producer
from rookery.client.types import Headers
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.wire.records import Codec

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
ACKS = ("0", "1", "all", "-1")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("produce", help="write records, one a line")
    parser.add_argument("topic")
    parser.add_argument("-k", "--key", help="key of every record")
    parser.add_argument("--key-separator", metavar="TEXT", help="what stands between key and value in a line")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("-p", "--partition", type=int, help="write to this partition only")
    parser.add_argument("--file", type=Path, help="read from this file instead of standard input")
    parser.add_argument("--acks", choices=ACKS, default="all")
    parser.add_argument("--compression", choices=[codec.name.lower() for codec in Codec], default="none")
    add_bootstrap(parser)
    parser.set_defaults(run=with_client(_produce))


def key_and_value(line: bytes, key: str | None, separator: str | None) -> tuple[bytes | None, bytes]:
    """The record of one line."""
    value = line.rstrip(b"\r\n")
    own = None if key is None else key.encode()
    if separator:
        head, found, rest = value.partition(separator.encode())
        return (head, rest) if found else (own, value)
    return own, value


def parse_headers(texts: list[str]) -> Headers:
    headers = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--header {text!r}: NAME=VALUE is needed")
        headers.append((name, value.encode()))
    return tuple(headers)


class Waiting:
    """Says why nothing happens, when nothing happens for a while."""

    def __init__(self) -> None:
        self._since: float | None = None

    def retried(self, why: object) -> None:
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


async def _reach(producer: Producer, waiting: Waiting) -> None:
    """Connect; a cluster that starts at the same time is waited for."""
    backoff = Backoff(BackoffSettings(), Random())
    deadline = time.monotonic() + REACH_S
    while True:
        try:
            return await producer.start()
        except RetriableError as error:
            if time.monotonic() > deadline:
                raise
            waiting.retried(error)
            await asyncio.sleep(backoff.failed())


async def _say_if_new(producer: Producer, options: dict[str, Any], topic: str) -> None:
    """A topic that is not there is created by the first record, which should not happen by a typing error unnoticed."""
    async with Admin(options) as admin:
        known = await admin.list_topics(internal=True)
    partitions = await producer.partitions_for(topic)
    if topic not in known:
        print(f"created topic {topic} with {len(partitions)} partition(s): there was none", file=sys.stderr)


async def _stored(producer: Producer, sent: list[Delivery], waiting: Waiting) -> None:
    """Wait until the cluster has the records, and say what is in the way if that takes long."""
    flush = asyncio.create_task(producer.flush())
    try:
        while not (await asyncio.wait((flush,), timeout=SILENT_S / 4))[0]:
            for problem in producer.health().problems[:1]:
                waiting.retried(problem)
    finally:
        flush.cancel()
    for each in sent:
        each.result()


async def _produce(arguments: argparse.Namespace) -> None:
    headers = parse_headers(arguments.header)
    options = client_options(arguments)
    producer = Producer({**options, "acks": arguments.acks, "compression.type": arguments.compression, "linger.ms": 0})
    waiting = Waiting()
    try:
        source = os.open(arguments.file, os.O_RDONLY) if arguments.file else sys.stdin.fileno()
    except OSError as error:
        raise CliError(f"--file: {error}") from error
    written = 0
    try:
        async for chunk in lines(source):
            if not written:
                await _reach(producer, waiting)
                await _say_if_new(producer, options, arguments.topic)
            sent = []
            for line in chunk:
                key, value = key_and_value(line, arguments.key, arguments.key_separator)
                sent.append(
                    await producer.send(
                        arguments.topic, value, key=key, headers=headers, partition=arguments.partition
                    )
                )
            await _stored(producer, sent, waiting)
            written += len(sent)
            waiting.went_on()
    finally:
        await producer.close()
    print(f"wrote {written} record(s) to {arguments.topic}", file=sys.stderr)
