"""`rookery metadata`: what the cluster agrees on, now or at an earlier offset."""

import argparse
import json
from typing import Any

from rookery.client.cli.common import table
from rookery.client.cli.errors import UsageError
from rookery.client.cli.metadata_image import fetched_image, stored_image
from rookery.client.cli.quorum import Controllers, add_controllers, with_controllers
from rookery.core.metadata.image import Image
from rookery.core.metadata.snapshot import state_hash

BROKERS = ("id", "epoch", "state", "rack", "endpoints", "directories")
PARTITIONS = (
    "topic",
    "partition",
    "leader",
    "leader_epoch",
    "replicas",
    "isr",
    "osr",
    "elr",
    "adding",
    "removing",
    "state",
)
CONFIGS = ("type", "name", "key", "value")
_TYPES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("metadata", help="show what the controller knows")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    dump = actions.add_parser("dump", help="brokers, topics, partitions, configuration and features")
    add_controllers(dump)
    dump.add_argument("--data", metavar="DIR", help="read a node's log folder instead of asking a controller")
    dump.add_argument("--at", type=int, metavar="OFFSET", help="the state after this offset instead of the newest")
    dump.add_argument("--topic", metavar="NAME", help="only the partitions of this topic")
    dump.add_argument("-o", "--output", choices=("table", "json"), default="table", help="form of the output (table)")
    dump.set_defaults(run=with_controllers(_dump))


async def _dump(controllers: Controllers, arguments: argparse.Namespace) -> None:
    if arguments.at is not None and arguments.at < 0:
        raise UsageError("--at needs an offset, which is not negative")
    if arguments.data:
        image = stored_image(arguments.data, arguments.at)
    else:
        stub, quorum = await controllers.leader()
        image = await fetched_image(stub, quorum, arguments.at)
    content = described(image, arguments.topic)
    if arguments.output == "json":
        print(json.dumps(content, indent=1))
    else:
        _print(content)


def described(image: Image, topic: str | None = None) -> dict[str, Any]:
    """The image in plain values. Secrets stay out: of credentials only the names are shown."""
    return {
        "offset": image.offset,
        "epoch": image.epoch,
        "hash": state_hash(image),
        "features": dict(sorted(image.features.items())),
        "next_producer_id": image.next_producer_id,
        "brokers": _brokers(image),
        "topics": {name: str(image.topic_ids[name]) for name in sorted(image.topic_ids)},
        "partitions": _partitions(image, topic),
        "configs": _configs(image),
        "users": sorted({name for name, _ in image.credentials}),
        "acls": len(image.acls),
        "quotas": len(image.quotas),
    }


def _brokers(image: Image) -> list[dict[str, Any]]:
    rows = []
    for _, broker in sorted(image.brokers.items()):
        state = "fenced" if broker.fenced else "stopping" if broker.in_controlled_shutdown else "active"
        endpoints = [f"{endpoint.name}://{endpoint.host}:{endpoint.port}" for endpoint in broker.endpoints]
        directories = [str(directory) for directory in broker.directories]
        values = (broker.id, broker.epoch, state, broker.rack or "-", endpoints, directories)
        rows.append(dict(zip(BROKERS, values, strict=True)))
    return rows


def _partitions(image: Image, only: str | None) -> list[dict[str, Any]]:
    rows = []
    for name in sorted(image.topic_ids):
        if only not in (None, name):
            continue
        for index, p in image.topics[image.topic_ids[name]].in_order():
            out = tuple(broker for broker in p.replicas if broker not in p.isr)
            sets = (p.replicas, p.isr, out, p.elr, p.adding_replicas, p.removing_replicas)
            state = p.leader_recovery_state.name.lower()
            values = (name, index, p.leader, p.leader_epoch, *map(list, sets), state)
            rows.append(dict(zip(PARTITIONS, values, strict=True)))
    return rows


def _configs(image: Image) -> list[dict[str, Any]]:
    return [
        dict(zip(CONFIGS, (_TYPES.get(resource.type, str(resource.type)), resource.name, key, value), strict=True))
        for resource in sorted(image.configs)
        for key, value in sorted(image.configs[resource].items())
    ]


def _print(content: dict[str, Any]) -> None:
    features = " ".join(f"{name}={level}" for name, level in content["features"].items())
    print(f"offset {content['offset']}  epoch {content['epoch']}  hash {content['hash']}")
    print(f"features {features or '-'}  next producer id {content['next_producer_id']}")
    for title, columns in (("brokers", BROKERS), ("partitions", PARTITIONS), ("configs", CONFIGS)):
        rows = content[title]
        print(f"\n{title} ({len(rows)})")
        if rows:
            print(table(rows, columns))
