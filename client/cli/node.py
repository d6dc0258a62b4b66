"""`rookery node`: runs a node; and the nodes of a cluster: list, describe, drain, remove."""

import argparse
import asyncio
import importlib
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rookery.client.admin import Admin
from rookery.client.cli.common import (
    Progress,
    add_bootstrap,
    add_output,
    add_yes,
    confirm,
    show,
    table,
    with_admin,
)
from rookery.client.cli.partition import text_of
from rookery.client.errors import CliError, NotFoundError, UnhealthyError
from rookery.client.reassignment import PlanError, drain

RUNS = "rookery.broker.node.command"
COLUMNS = ("node", "address", "rack", "state", "leaders", "replicas", "bytes")
POLL_S = 0.5


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "node", help="run one node in the foreground; list, describe, drain and remove nodes"
    )
    parser.add_argument("--config", type=Path, help="a .properties file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option")
    parser.add_argument("--format", action="store_true", help="prepare the empty folder of a node, and end")
    parser.add_argument(
        "--add-scram",
        action="append",
        default=[],
        metavar="'SCRAM-SHA-512=[name=USER,password=PASSWORD]'",
        help="with --format: a user that a new cluster begins with, as kafka-storage takes it",
    )
    parser.set_defaults(run=_run)
    actions = parser.add_subparsers(dest="action", metavar="action", required=False)

    listing = actions.add_parser("list", help="list the brokers, with what each leads and holds")
    add_bootstrap(listing)
    add_output(listing)
    listing.set_defaults(run=with_admin(_list))

    describe = actions.add_parser("describe", help="show one broker: folders, partitions, options that were set")
    describe.add_argument("node", type=int)
    add_bootstrap(describe)
    add_output(describe)
    describe.set_defaults(run=with_admin(_describe))

    draining = actions.add_parser("drain", help="move every replica off a broker")
    draining.add_argument("node", type=int)
    draining.add_argument("--dry-run", action="store_true", help="only show the plan, for `partition reassign --plan`")
    draining.add_argument("--wait", type=float, metavar="SECONDS", help="until it holds nothing, or exit code 3")
    add_yes(draining)
    add_bootstrap(draining)
    draining.set_defaults(run=with_admin(_drain))

    remove = actions.add_parser("remove", help="forget a broker that is stopped for good and holds nothing")
    remove.add_argument("node", type=int)
    remove.add_argument("--force", action="store_true", help="although partitions name it as a replica")
    add_yes(remove)
    add_bootstrap(remove)
    remove.set_defaults(run=with_admin(_remove))


def _run(arguments: argparse.Namespace) -> int:
    """In the foreground; what runs a node is loaded only now."""
    return int(importlib.import_module(RUNS).run(arguments))


async def _rows(admin: Admin) -> list[dict[str, Any]]:
    cluster = await admin.describe_cluster(fenced=True)
    topics = (await admin.describe_topics(await admin.list_topics(internal=True))).values()
    parts = [part for topic in topics for part in topic.partitions]
    leaders = Counter(part.leader for part in parts)
    replicas = Counter(replica for part in parts for replica in part.replicas)
    sizes: dict[int, int] = {}
    for broker in cluster.brokers:
        if not broker.fenced:
            folders = (await admin.describe_log_dirs([broker.id]))[broker.id]
            sizes[broker.id] = sum(each.size for folder in folders for each in folder.replicas.values())
    return [
        {
            "node": broker.id,
            "address": f"{broker.host}:{broker.port}",
            "rack": broker.rack or "-",
            "state": "fenced" if broker.fenced else "running",
            "leaders": leaders[broker.id],
            "replicas": replicas[broker.id],
            "bytes": sizes.get(broker.id, "-"),
        }
        for broker in sorted(cluster.brokers, key=lambda broker: broker.id)
    ]


async def _list(admin: Admin, arguments: argparse.Namespace) -> None:
    show(await _rows(admin), COLUMNS, arguments.output)


async def _one(admin: Admin, number: int) -> dict[str, Any]:
    rows = await _rows(admin)
    found = next((row for row in rows if row["node"] == number), None)
    if found is None:
        raise NotFoundError(f"there is no broker {number}; there are {', '.join(str(row['node']) for row in rows)}")
    return found


async def _describe(admin: Admin, arguments: argparse.Namespace) -> None:
    row = await _one(admin, arguments.node)
    folders: list[dict[str, Any]] = []
    options: dict[str, str] = {}
    if row["state"] == "running":
        folders = [
            {
                "folder": each.path,
                "replicas": len(each.replicas),
                "bytes": sum(replica.size for replica in each.replicas.values()),
                "free-bytes": each.usable_bytes,
                "state": "online" if each.error is None else str(each.error),
            }
            for each in (await admin.describe_log_dirs([arguments.node]))[arguments.node]
        ]
        entries = await admin.describe_broker_config(arguments.node)
        options = {
            each.name: "(hidden)" if each.sensitive else each.value or ""
            for each in sorted(entries.values())
            if not each.is_default
        }
    if arguments.output != "table":
        show([{**row, "log-dirs": folders, "options": options}], COLUMNS, arguments.output)
        return
    print(table([row], COLUMNS))
    if folders:
        print(table(folders, ("folder", "replicas", "bytes", "free-bytes", "state")))
    for name, value in options.items():
        print(f"{name}={value}")


async def _drain(admin: Admin, arguments: argparse.Namespace) -> None:
    number = arguments.node
    await _one(admin, number)
    topics = list((await admin.describe_topics(await admin.list_topics(internal=True))).values())
    brokers = (await admin.describe_cluster()).brokers
    try:
        plan = drain(topics, brokers, number)
    except PlanError as error:
        raise CliError(str(error)) from error
    if arguments.dry_run:
        print(text_of(plan))
        return
    if not plan:
        print(f"broker {number} holds no replica")
        return
    confirm(f"Move {len(plan)} replica(s) off broker {number}?", yes=arguments.yes)
    await admin.alter_reassignments(plan)
    if arguments.wait is None:
        print(f"{len(plan)} replica(s) are being moved off broker {number}; see `rookery partition status`")
        return
    await _wait_empty(admin, number, arguments.wait)
    print(f"broker {number} holds nothing any more; stop it, then `rookery node remove {number}`")


async def _wait_empty(admin: Admin, number: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    progress = Progress()
    while left := (await _one(admin, number))["replicas"]:
        progress.report(f"broker {number} holds {left} replica(s)")
        if time.monotonic() > deadline:
            progress.end()
            raise UnhealthyError(f"broker {number} still holds replicas after {timeout_s:g} s; the move goes on")
        await asyncio.sleep(POLL_S)
    progress.end()


async def _remove(admin: Admin, arguments: argparse.Namespace) -> None:
    row = await _one(admin, arguments.node)
    number = arguments.node
    if row["state"] == "running":
        raise CliError(f"broker {number} is running: stop it first")
    if row["replicas"] and not arguments.force:
        raise CliError(
            f"{row['replicas']} partition(s) name broker {number} as a replica: move them off first "
            f"(`rookery node drain {number}`), or use --force and give up what only it holds"
        )
    confirm(f"Forget broker {number}?", yes=arguments.yes)
    await admin.unregister_broker(number)
    print(f"broker {number} is forgotten; it registers again if it is started")
