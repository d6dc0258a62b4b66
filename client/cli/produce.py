"""`rookery produce`: one record a line, from standard input or a file."""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from rookery.client.cli.common import add_bootstrap, with_cluster
from rookery.client.cli.errors import CliError, UsageError
from rookery.client.sender import Outgoing, Sender
from rookery.core.net.cluster import Cluster
from rookery.core.wire.records import Codec, RecordHeader

BATCH_RECORDS = 500
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


async def _produce(cluster: Cluster, arguments: argparse.Namespace) -> None:
    headers = parse_headers(arguments.header)
    sender = Sender(
        cluster, arguments.topic, acks=ACKS[arguments.acks], codec=Codec[arguments.compression.upper()]
    )
    try:
        source: BinaryIO = arguments.file.open("rb") if arguments.file else sys.stdin.buffer
    except OSError as error:
        raise CliError(f"--file: {error}") from error
    written = 0
    with source:
        lines = iter(source)
        while chunk := await asyncio.to_thread(_take, lines):
            written += len(await sender.send([outgoing(line, arguments, headers) for line in chunk]))
    print(f"wrote {written} record(s) to {arguments.topic}", file=sys.stderr)


def _take(lines: Iterator[bytes]) -> list[bytes]:
    """Some lines: many from a file, what is there from a terminal."""
    return list(islice(lines, 1 if sys.stdin.isatty() else BATCH_RECORDS))
