"""`rookery topic`: create, list, describe, alter, grow, trim, copy and delete topics."""

import argparse
from pathlib import Path
from typing import Any

from rookery.client import admin
from rookery.client.admin import Admin
from rookery.client.admin.types import ConfigSource, ResourceType
from rookery.client.cli.common import (
    Progress,
    add_bootstrap,
    add_output,
    add_yes,
    client_options,
    confirm,
    show,
    table,
    with_admin,
    with_cluster,
)
from rookery.client.cli.places import chosen, instant_ms, read_offsets, trim_target
from rookery.client.errors import CliError, UsageError
from rookery.client.types import TopicPartition
from rookery.core.config.options import ConfigError
from rookery.core.config.properties import read_overrides
from rookery.core.errors import UnknownTopicOrPartitionError
from rookery.core.net.cluster import Cluster, TopicView


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("topic", help="create, list, describe, alter, trim, copy and delete topics")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)

    create = actions.add_parser("create", help="create a topic")
    create.add_argument("name")
    create.add_argument("-p", "--partitions", type=int, default=-1, help="number of partitions")
    create.add_argument("-r", "--replication-factor", type=int, default=-1, help="replicas of each")
    create.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="an option")
    create.add_argument("--dry-run", action="store_true", help="only check whether it could be created")
    add_bootstrap(create)
    create.set_defaults(run=with_cluster(_create))

    listing = actions.add_parser("list", help="list topics")
    listing.add_argument("--internal", action="store_true", help="internal ones too")
    add_bootstrap(listing)
    add_output(listing)
    listing.set_defaults(run=with_cluster(_list))

    describe = actions.add_parser("describe", help="show partitions, leaders, replicas, ISR and OSR")
    describe.add_argument("name")
    add_bootstrap(describe)
    add_output(describe)
    describe.set_defaults(run=with_cluster(_describe))

    delete = actions.add_parser("delete", help="delete a topic and its data")
    delete.add_argument("name")
    add_yes(delete)
    add_bootstrap(delete)
    delete.set_defaults(run=with_cluster(_delete))

    grow = actions.add_parser("add-partitions", help="grow a topic; it can never shrink")
    grow.add_argument("name")
    grow.add_argument("total", type=int, help="new number of partitions")
    add_bootstrap(grow)
    grow.set_defaults(run=with_cluster(_add_partitions))

    alter = actions.add_parser("alter", help="change options of a topic")
    alter.add_argument("name")
    alter.add_argument("assignment", nargs="*", metavar="KEY=VALUE")
    alter.add_argument("--unset", action="append", default=[], metavar="KEY", help="go back to the default")
    alter.add_argument("--dry-run", action="store_true", help="only check whether it is allowed")
    add_bootstrap(alter)
    alter.set_defaults(run=with_admin(_alter))

    trim = actions.add_parser("trim", help="delete records from the beginning of partitions")
    trim.add_argument("name", metavar="NAME[:P,...]")
    to = trim.add_mutually_exclusive_group(required=True)
    to.add_argument("--before", metavar="WHERE", help="an offset, -N to keep the last N, @2026-05-01T12:00, or end")
    to.add_argument("--from-file", type=Path, metavar="FILE", help="what kafka-delete-records.sh takes")
    trim.add_argument("--dry-run", action="store_true", help="only show what would go")
    add_yes(trim)
    add_bootstrap(trim)
    add_output(trim)
    trim.set_defaults(run=with_admin(_trim))

    offsets = actions.add_parser("offsets", help="show first, stable and last offset of each partition")
    offsets.add_argument("name")
    offsets.add_argument("--at", metavar="TIME", help="and the first record since 2026-05-01T12:00")
    add_bootstrap(offsets)
    add_output(offsets)
    offsets.set_defaults(run=with_admin(_offsets))

    copy = actions.add_parser("copy", help="copy records to another topic, partition by partition")
    copy.add_argument("name")
    copy.add_argument("to", help="is created with the same partitions and options if it is not there")
    copy.add_argument("--since", metavar="TIME", help="only records since 2026-05-01T12:00")
    copy.add_argument(
        "--isolation-level", choices=("read_uncommitted", "read_committed"), default="read_committed",
        help="read_uncommitted copies records of open and aborted transactions, too (read_committed)",
    )  # fmt: skip
    add_bootstrap(copy)
    copy.set_defaults(run=with_admin(_copy))


async def _create(cluster: Cluster, arguments: argparse.Namespace) -> None:
    try:
        configs = read_overrides(arguments.config)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    topic = admin.NewTopic(arguments.name, arguments.partitions, arguments.replication_factor, configs)
    partitions, replicas = await admin.create_topic(cluster, topic, validate_only=arguments.dry_run)
    if arguments.dry_run:
        print(f"topic {arguments.name} could be created")
        return
    size = f" with {partitions} partition(s) of {replicas} replica(s)" if partitions > 0 else ""
    print(f"created topic {arguments.name}{size}")


async def _list(cluster: Cluster, arguments: argparse.Namespace) -> None:
    view = await cluster.refresh(None)
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": max((len(p.replicas) for p in topic.partitions.values()), default=0),
        }
        for topic in sorted(view.topics.values(), key=lambda topic: topic.name)
        if arguments.internal or not topic.internal
    ]
    show(rows, ("topic", "partitions", "replicas"), arguments.output)


def partition_rows(topic: TopicView) -> list[dict[str, Any]]:
    """One row a partition; AR = ISR + OSR."""
    return [
        {
            "partition": p.index,
            "leader": p.leader if p.leader >= 0 else "none",
            "epoch": p.leader_epoch,
            "replicas": list(p.replicas),
            "isr": list(p.isr),
            "osr": [replica for replica in p.replicas if replica not in p.isr],
        }
        for _, p in sorted(topic.partitions.items())
    ]


async def _describe(cluster: Cluster, arguments: argparse.Namespace) -> None:
    view = await cluster.refresh([arguments.name])
    topic = view.topics.get(arguments.name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"there is no topic {arguments.name!r}")
    overrides = await admin.topic_overrides(cluster, topic.name)
    rows = partition_rows(topic)
    columns = ("partition", "leader", "epoch", "replicas", "isr", "osr")
    if arguments.output != "table":
        show(rows, columns, arguments.output)
        return
    settings = " ".join(f"{key}={value}" for key, value in sorted(overrides.items()))
    print(f"topic {topic.name}  id {topic.id}  partitions {len(rows)}  {settings}".rstrip())
    print(table(rows, columns))


async def _delete(cluster: Cluster, arguments: argparse.Namespace) -> None:
    confirm(f"Delete topic {arguments.name} and its data?", yes=arguments.yes)
    await admin.delete_topic(cluster, arguments.name)
    print(f"deleted topic {arguments.name}")


async def _add_partitions(cluster: Cluster, arguments: argparse.Namespace) -> None:
    await admin.create_partitions(cluster, arguments.name, arguments.total)
    print(f"topic {arguments.name} has {arguments.total} partitions now")


async def _alter(admin: Admin, arguments: argparse.Namespace) -> None:
    try:
        values = read_overrides(arguments.assignment)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    if not values and not arguments.unset:
        raise UsageError("nothing to change: KEY=VALUE or --unset KEY is needed")
    await admin.alter_config(
        ResourceType.TOPIC, arguments.name, values or None, delete=arguments.unset, validate_only=arguments.dry_run
    )
    done = [*(f"{key}={value}" for key, value in values.items()), *(f"{key} is the default" for key in arguments.unset)]
    print(f"topic {arguments.name}: {'allowed, not changed: ' if arguments.dry_run else ''}{', '.join(done)}")


async def _trim(admin: Admin, arguments: argparse.Namespace) -> None:
    places = await chosen(admin, [arguments.name])
    firsts = await admin.list_offsets(dict.fromkeys(places, "earliest"))
    lasts = await admin.list_offsets(dict.fromkeys(places, "latest"))
    starts, ends = ({place: each.offset for place, each in found.items()} for found in (firsts, lasts))
    if arguments.from_file is not None:
        asked = read_offsets(arguments.from_file)
        stray = [place for place in asked if place not in ends]
        if stray:
            raise UsageError(f"--from-file: {stray[0]} is not a partition of {arguments.name}")
        wanted = {place: ends[place] if offset < 0 else offset for place, offset in asked.items()}
    else:
        target = trim_target(arguments.before)
        if isinstance(target, int):
            wanted = {place: max(end + target, 0) if target < 0 else target for place, end in ends.items()}
        elif target == "end":
            wanted = ends
        else:
            listed = await admin.list_offsets(dict.fromkeys(places, instant_ms("--before", target)))
            wanted = {place: each.offset if each.offset >= 0 else ends[place] for place, each in listed.items()}
    beyond = [place for place, offset in wanted.items() if offset > ends[place]]
    if beyond:
        raise UsageError(f"{beyond[0]} ends at {ends[beyond[0]]}: nothing before {wanted[beyond[0]]} can be deleted")
    wanted = {place: offset for place, offset in wanted.items() if offset > starts[place]}
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "log-start-offset": starts[place],
            "new-start-offset": offset,
            "records": offset - starts[place],
        }
        for place, offset in sorted(wanted.items())
    ]
    columns = ("topic", "partition", "log-start-offset", "new-start-offset", "records")
    if rows and not arguments.dry_run:
        records = sum(offset - starts[place] for place, offset in wanted.items())
        confirm(f"Delete up to {records} record(s) for ever?", yes=arguments.yes)
        await admin.delete_records(wanted)
    show(rows, columns, arguments.output)


async def _offsets(admin: Admin, arguments: argparse.Namespace) -> None:
    places = await chosen(admin, [arguments.name])
    starts = await admin.list_offsets(dict.fromkeys(places, "earliest"))
    ends = await admin.list_offsets(dict.fromkeys(places, "latest"))
    stable = await admin.list_offsets(dict.fromkeys(places, "latest"), read_committed=True)
    columns = ["topic", "partition", "earliest", "last-stable", "latest", "records"]
    rows: list[dict[str, Any]] = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "earliest": starts[place].offset,
            "last-stable": stable[place].offset,
            "latest": ends[place].offset,
            "records": ends[place].offset - starts[place].offset,
        }
        for place in places
    ]
    if arguments.at is not None:
        found = await admin.list_offsets(dict.fromkeys(places, instant_ms("--at", arguments.at)))
        columns.append("at")
        for row, place in zip(rows, places, strict=True):
            row["at"] = found[place].offset if found[place].offset >= 0 else "-"
    show(rows, columns, arguments.output)


async def _copy(admin: Admin, arguments: argparse.Namespace) -> None:
    from rookery.client.topic_copy import copy_records

    if arguments.to == arguments.name:
        raise UsageError(f"{arguments.to}: a topic cannot be copied to itself")
    source = await admin.describe_topic(arguments.name)
    if arguments.to in await admin.list_topics(internal=True):
        target = await admin.describe_topic(arguments.to)
        if len(target.partitions) < len(source.partitions):
            raise CliError(
                f"{arguments.to} has {len(target.partitions)} partition(s), {arguments.name} has "
                f"{len(source.partitions)}: records keep their partition. `rookery topic add-partitions` grows it"
            )
    else:
        entries = await admin.describe_topic_config(arguments.name)
        own = {each.name: each.value or "" for each in entries.values() if each.source == ConfigSource.TOPIC}
        await admin.create_topic(arguments.to, len(source.partitions), source.replication_factor, own)
    places = [TopicPartition(source.name, part.number) for part in source.partitions]
    since = instant_ms("--since", arguments.since) if arguments.since is not None else None
    committed = arguments.isolation_level == "read_committed"
    progress = Progress()
    copied = await copy_records(
        client_options(arguments), places, arguments.to, since, read_committed=committed,
        report=lambda count: progress.report(f"copied {count} record(s)"),
    )  # fmt: skip
    progress.end()
    print(f"copied {copied} record(s) of {arguments.name} to {arguments.to}")
