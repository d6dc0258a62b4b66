"""`rookery bench`: load on any cluster, and what it did: rate, MB/s, percentiles."""

import argparse
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from rookery.client.admin import Admin
from rookery.client.cli.common import add_bootstrap, add_output, client_options, show, with_admin
from rookery.client.errors import UsageError
from rookery.client.load import CODECS, COLUMNS, Measured, consume, end_to_end, produce, values_of


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("bench", help="put load on a cluster and measure it")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for name, text, records in (
        ("produce", "write records as fast as they are taken, or at a rate", 100_000),
        ("consume", "read a topic from its beginning", None),
        ("e2e", "the time from send to a consumer, one record at a time", 1_000),
        ("codecs", "write the same text with each codec", 50_000),
    ):
        verb = actions.add_parser(name, help=text)
        _load(verb, name, records)
        add_bootstrap(verb)
        add_output(verb)
        verb.set_defaults(run=with_admin(_bench))


def _load(verb: argparse.ArgumentParser, name: str, records: int | None) -> None:
    if name == "consume":
        verb.add_argument("--topic", required=True, help="an existing topic")
    else:
        verb.add_argument("--topic", help="an existing topic (a new one that is deleted at the end)")
    verb.add_argument("-n", "--records", type=int, default=records, help=f"how many ({records or 'all'})")
    if name == "consume":
        return
    verb.add_argument("--size", type=int, default=1000, metavar="BYTES", help="of each value (1000)")
    verb.add_argument("--acks", choices=("0", "1", "all"), default="all", help="(all)")
    verb.add_argument("-p", "--partitions", type=int, default=1, help="of a new topic (1)")
    verb.add_argument("-r", "--replication-factor", type=int, default=-1, help="of a new topic (the cluster's default)")
    if name == "produce":
        verb.add_argument("--rate", type=float, default=0.0, metavar="RECORDS/S", help="at most (no limit)")
        verb.add_argument("--linger-ms", type=int, default=5, help="wait for more records in a batch (5)")
        verb.add_argument("--compression", choices=CODECS, default="none", help="(none)")


async def _bench(admin: Admin, arguments: argparse.Namespace) -> None:
    name, options = arguments.action, client_options(arguments)
    if arguments.records is not None and arguments.records < 1:
        raise UsageError(f"--records {arguments.records}: at least 1 is needed")
    if name == "consume":
        show([(await consume(options, arguments.topic, arguments.records)).row()], COLUMNS, arguments.output)
        return
    if arguments.size < 1:
        raise UsageError(f"--size {arguments.size}: at least 1 is needed")
    async with _topic(admin, arguments) as topic:
        rows = [each.row() for each in await _measured(name, options, topic, arguments)]
    show(rows, COLUMNS, arguments.output)


async def _measured(name: str, options: dict[str, Any], topic: str, arguments: argparse.Namespace) -> list[Measured]:
    records, size = arguments.records, arguments.size
    producing = {"acks": arguments.acks, "enable.idempotence": arguments.acks == "all", "linger.ms": 0}
    if name == "e2e":
        return [await end_to_end(options, producing, topic, records, values_of(size, False))]
    options = {**options, **producing}
    if name == "codecs":
        found = []
        for codec in CODECS:
            packed = {**options, "linger.ms": 20, "compression.type": codec}
            found.append(await produce(packed, topic, records, values_of(size, True), what=codec))
        return found
    loaded = {**options, "linger.ms": arguments.linger_ms, "compression.type": arguments.compression}
    values = values_of(size, arguments.compression != "none")
    return [await produce(loaded, topic, records, values, arguments.rate)]


@asynccontextmanager
async def _topic(admin: Admin, arguments: argparse.Namespace) -> AsyncGenerator[str, None]:
    """The topic that was named, or one for this run."""
    if arguments.topic is not None:
        await admin.describe_topic(arguments.topic)
        yield arguments.topic
        return
    name = f"rookery-bench-{os.urandom(4).hex()}"
    await admin.create_topic(name, arguments.partitions, arguments.replication_factor)
    try:
        yield name
    finally:
        await admin.delete_topic(name)
