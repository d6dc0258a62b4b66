"""`rookery partition`: move replicas, elect leaders."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.client.admin import Admin
from rookery.client.cli.common import add_bootstrap, add_output, add_yes, confirm, show, with_admin
from rookery.client.errors import CliError, UsageError
from rookery.client.reassignment import Plan, PlanError, drain, moves, spread
from rookery.client.types import TopicPartition

COLUMNS = ("topic", "partition", "replicas", "adding", "removing")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("partition", help="move replicas, elect leaders")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)

    listing = actions.add_parser("list", help="list partitions")
    listing.add_argument("--topic", action="append", default=[], help="only of this topic")
    listing.add_argument("--under-replicated", action="store_true", help="only where a replica is not in sync")
    listing.add_argument("--without-leader", action="store_true", help="only where there is no leader")
    add_bootstrap(listing)
    add_output(listing)
    listing.set_defaults(run=with_admin(_list))

    move = actions.add_parser("reassign", help="move replicas: spread over brokers, drain one, or by a plan")
    how = move.add_mutually_exclusive_group(required=True)
    how.add_argument("--brokers", metavar="1,2,3", help="spread replicas evenly over these brokers")
    how.add_argument("--drain", type=int, metavar="ID", help="move everything off a broker")
    how.add_argument("--plan", type=Path, metavar="FILE", help="a plan as Kafka's tool writes it")
    move.add_argument("--topic", action="append", default=[], help="only of this topic (all)")
    move.add_argument("--dry-run", action="store_true", help="only print the plan, for --plan")
    add_yes(move)
    add_bootstrap(move)
    move.set_defaults(run=with_admin(_reassign))

    status = actions.add_parser("status", help="show moves under way; exit code 3 while there are some")
    add_bootstrap(status)
    add_output(status)
    status.set_defaults(run=with_admin(_status))

    cancel = actions.add_parser("cancel", help="cancel moves under way")
    add_yes(cancel)
    add_bootstrap(cancel)
    cancel.set_defaults(run=with_admin(_cancel))

    elect = actions.add_parser("elect", help="make the preferred replicas leaders")
    elect.add_argument("--topic", action="append", default=[], help="only of this topic (all)")
    elect.add_argument("--unclean", action="store_true", help="any living replica: acknowledged records may be lost")
    add_yes(elect)
    add_bootstrap(elect)
    elect.set_defaults(run=with_admin(_elect))


async def _topics(admin: Admin, names: Sequence[str], *, internal: bool = True) -> list[Any]:
    wanted = list(names) or await admin.list_topics(internal=internal)
    return list((await admin.describe_topics(wanted)).values())


async def _list(admin: Admin, arguments: argparse.Namespace) -> None:
    rows = [
        {
            "topic": topic.name,
            "partition": part.number,
            "leader": part.leader if part.leader >= 0 else "none",
            "replicas": list(part.replicas),
            "isr": list(part.isr),
        }
        for topic in await _topics(admin, arguments.topic, internal=False)
        for part in topic.partitions
        if not (arguments.under_replicated and len(part.isr) == len(part.replicas))
        and not (arguments.without_leader and part.leader >= 0)
    ]
    show(rows, ("topic", "partition", "leader", "replicas", "isr"), arguments.output)


async def _reassign(admin: Admin, arguments: argparse.Namespace) -> None:
    topics = await _topics(admin, arguments.topic)
    before = {TopicPartition(t.name, p.number): p.replicas for t in topics for p in t.partitions}
    plan = await _plan(admin, arguments, topics)
    unknown = [place for place in plan if place not in before]
    if unknown:
        raise UsageError(f"--plan: there is no partition {unknown[0]}")
    if arguments.dry_run:
        print(text_of(plan))
        return
    if not plan:
        print("nothing to move")
        return
    copied = moves(plan, before)
    confirm(f"Change {len(plan)} partition(s), copying {copied} replica(s)?", yes=arguments.yes)
    await admin.alter_reassignments(plan)
    print(f"{len(plan)} partition(s) are being moved; `rookery partition status` shows how far it is")


async def _plan(admin: Admin, arguments: argparse.Namespace, topics: Sequence[Any]) -> Plan:
    if arguments.plan is not None:
        return read_plan(arguments.plan)
    brokers = {each.id: each for each in (await admin.describe_cluster()).brokers}
    try:
        if arguments.drain is not None:
            if arguments.drain not in brokers and not any(
                arguments.drain in part.replicas for topic in topics for part in topic.partitions
            ):
                raise UsageError(f"--drain {arguments.drain}: there is no such broker; there are {sorted(brokers)}")
            return drain(topics, list(brokers.values()), arguments.drain)
        wanted = [int(number) for number in arguments.brokers.split(",")]
        missing = [number for number in wanted if number not in brokers]
        if missing:
            raise UsageError(f"--brokers: broker {missing[0]} is not there; there are {sorted(brokers)}")
        return spread(topics, [brokers[number] for number in wanted])
    except PlanError as error:
        raise CliError(str(error)) from error
    except ValueError:
        raise UsageError(f"--brokers {arguments.brokers}: numbers separated by commas are needed") from None


def text_of(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """A plan in the form of Kafka's reassignment tool."""
    rows = [
        {"topic": place.topic, "partition": place.partition, "replicas": list(replicas)}
        for place, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": rows}, indent=1)


def read_plan(path: Path) -> Plan:
    try:
        rows = json.loads(path.read_text())["partitions"]
        return {TopicPartition(row["topic"], int(row["partition"])): [int(b) for b in row["replicas"]] for row in rows}
    except OSError as error:
        raise UsageError(f"--plan {path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f'--plan {path}: {{"version": 1, "partitions": [...]}} is needed ({error})') from error


async def _status(admin: Admin, arguments: argparse.Namespace) -> int:
    under_way = await admin.list_reassignments()
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(each.replicas),
            "adding": list(each.adding),
            "removing": list(each.removing),
        }
        for place, each in sorted(under_way.items())
    ]
    show(rows, COLUMNS, arguments.output)
    return 3 if rows else 0


async def _cancel(admin: Admin, arguments: argparse.Namespace) -> None:
    under_way = await admin.list_reassignments()
    if not under_way:
        print("nothing is being moved")
        return
    confirm(f"Cancel {len(under_way)} move(s)?", yes=arguments.yes)
    await admin.alter_reassignments(dict.fromkeys(under_way, None))
    print(f"cancelled {len(under_way)} move(s)")


async def _elect(admin: Admin, arguments: argparse.Namespace) -> int:
    places = None
    if arguments.topic:
        topics = await _topics(admin, arguments.topic)
        places = [TopicPartition(topic.name, part.number) for topic in topics for part in topic.partitions]
    if arguments.unclean:
        confirm("An unclean election may lose acknowledged records. Go on?", yes=arguments.yes)
    outcomes = await admin.elect_leaders(places, unclean=arguments.unclean)
    failed = {place: error for place, error in outcomes.items() if error is not None}
    for place, error in sorted(failed.items()):
        print(f"{place}: {error}")
    print(f"{len(outcomes) - len(failed)} partition(s) have their leader")
    return 1 if failed else 0
