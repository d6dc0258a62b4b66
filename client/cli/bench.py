"""`rookery bench`: load on any cluster, and what it did: rate, MB/s, percentiles."""

import argparse
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from rookery.client.admin import Admin
from rookery.client.cli.common import add_bootstrap, add_output, client_options, show, with_admin
from rookery.client.errors import UsageError
from rookery.client.load import CODECS, COLUMNS, Measured, consume, end_to_end, produce, ratio, values_of
from rookery.client.types import TopicPartition

LINGER_MS = 20
CODEC_COLUMNS = (*COLUMNS, "ratio", "read-MB/s")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("bench", help="put load on a cluster and measure it")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for name, text, records in (
        ("produce", "write records as fast as they are taken, or at a rate", 100_000),
        ("consume", "read a topic from its beginning", None),
        ("e2e", "the time from send to a consumer, one record at a time", 1_000),
        ("codecs", "compare the codecs: write the same text with each, read it back, and see its size", 50_000),
    ):
        verb = actions.add_parser(name, help=text)
        _load(verb, name, records)
        add_bootstrap(verb)
        add_output(verb)
        verb.set_defaults(run=with_admin(_bench))


def _load(verb: argparse.ArgumentParser, name: str, records: int | None) -> None:
    if name == "consume":
        verb.add_argument("--topic", required=True, help="an existing topic")
    elif name != "codecs":
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
        await admin.describe_topic(arguments.topic)  # a consumer would create one that is not there
        show([(await consume(options, arguments.topic, arguments.records)).row()], COLUMNS, arguments.output)
        return
    if arguments.size < 1:
        raise UsageError(f"--size {arguments.size}: at least 1 is needed")
    if name == "codecs":
        show(await _codecs(admin, options, arguments), CODEC_COLUMNS, arguments.output)
        return
    async with _topic(admin, arguments, arguments.topic) as topic:
        rows = [each.row() for each in await _measured(name, options, topic, arguments)]
    show(rows, COLUMNS, arguments.output)


async def _measured(name: str, options: dict[str, Any], topic: str, arguments: argparse.Namespace) -> list[Measured]:
    records, size, producing = arguments.records, arguments.size, _producing(arguments)
    if name == "e2e":
        return [await end_to_end(options, producing, topic, records, values_of(size, False))]
    loaded = {**options, **producing, "linger.ms": arguments.linger_ms, "compression.type": arguments.compression}
    values = values_of(size, arguments.compression != "none")
    return [await produce(loaded, topic, records, values, arguments.rate)]


def _producing(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"acks": arguments.acks, "enable.idempotence": arguments.acks == "all", "linger.ms": 0}


async def _codecs(admin: Admin, options: dict[str, Any], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Each in a topic of its own: the size of its log is what the records have come to."""
    rows = []
    values = values_of(arguments.size, True)
    for codec in CODECS:
        packed = {**options, **_producing(arguments), "linger.ms": LINGER_MS, "compression.type": codec}
        async with _topic(admin, arguments, None) as topic:
            written = await produce(packed, topic, arguments.records, values, what=codec)
            stored = await _stored(admin, topic)
            read = await consume(options, topic, None)
        rows.append({**written.row(), "ratio": ratio(written.size, stored), "read-MB/s": read.row()["MB/s"]})
    return rows


async def _stored(admin: Admin, topic: str) -> int:
    """The bytes of a topic's logs, each partition counted once: at its leader."""
    described = await admin.describe_topic(topic)
    leaders = {TopicPartition(topic, each.number): each.leader for each in described.partitions}
    folders = await admin.describe_log_dirs(sorted({each for each in leaders.values() if each >= 0}), leaders)
    return sum(
        replica.size
        for broker, dirs in folders.items()
        for folder in dirs
        for place, replica in folder.replicas.items()
        if leaders.get(place) == broker
    )


@asynccontextmanager
async def _topic(admin: Admin, arguments: argparse.Namespace, named: str | None) -> AsyncGenerator[str, None]:
    """The topic that was named, or one for this run."""
    if named is not None:
        await admin.describe_topic(named)
        yield named
        return
    name = f"rookery-bench-{os.urandom(4).hex()}"
    await admin.create_topic(name, arguments.partitions, arguments.replication_factor)
    try:
        yield name
    finally:
        await admin.delete_topic(name)
