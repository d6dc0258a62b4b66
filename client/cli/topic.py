"""`rookery topic`: create, list, describe, grow and delete topics."""

import argparse
from typing import Any

from rookery.client import admin
from rookery.client.cli.common import add_bootstrap, add_output, show, table, with_cluster
from rookery.client.errors import NotFoundError, UsageError
from rookery.core.config.loading import read_overrides
from rookery.core.config.options import ConfigError
from rookery.core.net.cluster import Cluster, TopicView


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("topic", help="create, list, describe, grow and delete topics")
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
    add_bootstrap(delete)
    delete.set_defaults(run=with_cluster(_delete))

    grow = actions.add_parser("add-partitions", help="grow a topic; it can never shrink")
    grow.add_argument("name")
    grow.add_argument("total", type=int, help="number of partitions it shall have")
    add_bootstrap(grow)
    grow.set_defaults(run=with_cluster(_add_partitions))


async def _create(cluster: Cluster, arguments: argparse.Namespace) -> None:
    try:
        configs = read_overrides(arguments.config)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    topic = admin.NewTopic(arguments.name, arguments.partitions, arguments.replication_factor, configs)
    await admin.create_topic(cluster, topic, validate_only=arguments.dry_run)
    if arguments.dry_run:
        print(f"topic {arguments.name} could be created")
        return
    view = await cluster.topic(arguments.name, create=False)
    replicas = len(view.partitions[0].replicas)
    print(f"created topic {arguments.name} with {len(view.partitions)} partition(s) of {replicas} replica(s)")


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
        raise NotFoundError(f"there is no topic {arguments.name!r}; `rookery topic list` shows what there is")
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
    await admin.delete_topic(cluster, arguments.name)
    print(f"deleted topic {arguments.name}")


async def _add_partitions(cluster: Cluster, arguments: argparse.Namespace) -> None:
    await admin.create_partitions(cluster, arguments.name, arguments.total)
    print(f"topic {arguments.name} has {arguments.total} partitions now")
