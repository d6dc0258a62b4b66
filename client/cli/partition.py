"""`rookery partition`: move replicas, limit and check moves, balance, elect leaders."""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.client.admin import Admin
from rookery.client.admin.types import ResourceType
from rookery.client.cli.common import add_bootstrap, add_output, add_yes, confirm, show, with_admin
from rookery.client.errors import CliError, UsageError
from rookery.client.reassignment import Plan, PlanError, balance, drain, moves, shares, spread, throttled
from rookery.client.types import TopicPartition

COLUMNS = ("topic", "partition", "replicas", "adding", "removing")
BALANCE_COLUMNS = ("node", "replicas", "new-replicas", "leaders", "new-leaders")
VERIFY_COLUMNS = ("topic", "partition", "replicas", "wanted", "state")
ELECT_COLUMNS = ("topic", "partition", "result")
DONE, MOVING = "complete", "in progress"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("partition", help="move replicas, limit and check moves, balance, elect leaders")
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
    _add_throttle(move)
    add_yes(move)
    add_bootstrap(move)
    move.set_defaults(run=with_admin(_reassign))

    level = actions.add_parser("balance", help="spread replicas and preferred leaders evenly over all brokers")
    level.add_argument("--topic", action="append", default=[], help="only of this topic (all)")
    level.add_argument("--dry-run", action="store_true", help="only show what each broker would hold")
    _add_throttle(level)
    add_yes(level)
    add_bootstrap(level)
    add_output(level)
    level.set_defaults(run=with_admin(_balance))

    limit = actions.add_parser("throttle", help="limit the moves under way, or lift all limits with `off`")
    limit.add_argument("rate", metavar="BYTES/S", help="of each broker, e.g. 50000000; or off")
    add_bootstrap(limit)
    limit.set_defaults(run=with_admin(_throttle))

    verify = actions.add_parser(
        "verify", help="check whether a plan is carried out, then lift its limits; exit code 3 while it is not"
    )
    verify.add_argument("--plan", type=Path, metavar="FILE", required=True, help="the plan that was carried out")
    verify.add_argument("--preserve-throttles", action="store_true", help="leave the limits as they are")
    add_bootstrap(verify)
    add_output(verify)
    verify.set_defaults(run=with_admin(_verify))

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
    add_output(elect)
    elect.set_defaults(run=with_admin(_elect))


def _add_throttle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--throttle", type=int, metavar="BYTES/S", help="limit of each broker for the copies")


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
    await _begin(admin, plan, before, arguments.throttle)
    print(f"{len(plan)} partition(s) are being moved; `rookery partition status` shows how far it is")


async def _begin(
    admin: Admin, plan: Plan, before: Mapping[TopicPartition, Sequence[int]], rate: int | None
) -> None:
    """Limits first: what is copied before them would not be held back."""
    if rate is not None:
        new = {place: (before[place], sorted(set(plan[place]) - set(before[place]))) for place in plan}
        await _limit(admin, new, rate)
    await admin.alter_reassignments(plan)


async def _balance(admin: Admin, arguments: argparse.Namespace) -> None:
    topics = await _topics(admin, arguments.topic)
    brokers = (await admin.describe_cluster()).brokers
    before = {TopicPartition(t.name, p.number): p.replicas for t in topics for p in t.partitions}
    try:
        plan = balance(topics, brokers)
    except PlanError as error:
        raise CliError(str(error)) from error
    numbers = [each.id for each in brokers]
    now, then = shares(before, numbers), shares({**before, **plan}, numbers)
    rows = [
        {
            "node": broker,
            "replicas": now[broker].replicas,
            "new-replicas": then[broker].replicas,
            "leaders": now[broker].leaders,
            "new-leaders": then[broker].leaders,
        }
        for broker in then
    ]
    copied = moves(plan, before)
    show(rows, BALANCE_COLUMNS, arguments.output)
    if arguments.dry_run or not plan:
        if arguments.output == "table":
            print(f"{len(plan)} partition(s) would change, {copied} replica(s) would be copied")
        return
    confirm(f"Change {len(plan)} partition(s), copying {copied} replica(s)?", yes=arguments.yes)
    await _begin(admin, plan, before, arguments.throttle)
    if arguments.output == "table":
        print(
            f"{len(plan)} partition(s) are being moved; when `rookery partition status` shows none, "
            "`rookery partition elect` makes the preferred replicas leaders"
        )


async def _limit(
    admin: Admin, moving: Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]], rate: int
) -> None:
    """Limit copies of partitions, each with the replicas it has and those that are new."""
    if rate <= 0:
        raise UsageError(f"{rate}: a rate of more than 0 bytes a second is needed; `throttle off` lifts the limits")
    for topic, each in throttled(moving).items():
        values = {LEADER_REPLICAS: each.leader, FOLLOWER_REPLICAS: each.follower}
        await admin.alter_config(ResourceType.TOPIC, topic, values)
    for broker in (await admin.describe_cluster()).brokers:
        rates = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
        await admin.alter_config(ResourceType.BROKER, str(broker.id), rates)


async def _lift(admin: Admin, topics: Iterable[str]) -> None:
    for topic in topics:
        await admin.alter_config(ResourceType.TOPIC, topic, delete=(LEADER_REPLICAS, FOLLOWER_REPLICAS))
    for broker in (await admin.describe_cluster()).brokers:
        await admin.alter_config(ResourceType.BROKER, str(broker.id), delete=(LEADER_RATE, FOLLOWER_RATE))


async def _throttle(admin: Admin, arguments: argparse.Namespace) -> None:
    if arguments.rate == "off":
        await _lift(admin, await admin.list_topics(internal=True))
        print("no limit holds back replicas any more")
        return
    if not arguments.rate.isdigit():
        raise UsageError(f"{arguments.rate}: bytes a second are needed, or off")
    under_way = await admin.list_reassignments()
    if not under_way:
        raise CliError("nothing is being moved; `partition reassign` and `balance` take --throttle")
    moving = {
        place: ([broker for broker in each.replicas if broker not in each.adding], each.adding)
        for place, each in under_way.items()
    }
    await _limit(admin, moving, int(arguments.rate))
    print(f"{len(under_way)} move(s) are limited to {arguments.rate} bytes/s of each broker; `throttle off` lifts it")


async def _verify(admin: Admin, arguments: argparse.Namespace) -> int:
    plan = read_plan(arguments.plan)
    under_way = await admin.list_reassignments()
    known = set(await admin.list_topics(internal=True))
    topics = {place.topic for place in plan}
    described = await admin.describe_topics(sorted(topics & known))
    there = {TopicPartition(t.name, p.number): list(p.replicas) for t in described.values() for p in t.partitions}
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": there.get(place, []),
            "wanted": wanted,
            "state": _state(place, wanted, there, under_way),
        }
        for place, wanted in sorted(plan.items())
    ]
    show(rows, VERIFY_COLUMNS, arguments.output)
    states = {row["state"] for row in rows}
    if MOVING in states:
        return 3
    if not arguments.preserve_throttles:
        await _lift(admin, sorted(topics & known))
    return 0 if states <= {DONE} else 1


def _state(
    place: TopicPartition,
    wanted: Sequence[int],
    there: Mapping[TopicPartition, Sequence[int]],
    under_way: Mapping[TopicPartition, object],
) -> str:
    if place not in there:
        return "no such partition"
    if place in under_way:
        return MOVING
    return DONE if list(there[place]) == list(wanted) else "other replicas"


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
    if arguments.output != "table":
        rows = [
            {"topic": place.topic, "partition": place.partition, "result": "done" if error is None else str(error)}
            for place, error in sorted(outcomes.items())
        ]
        show(rows, ELECT_COLUMNS, arguments.output)
        return 1 if failed else 0
    for place, error in sorted(failed.items()):
        print(f"{place}: {error}")
    print(f"{len(outcomes) - len(failed)} partition(s) have their leader")
    return 1 if failed else 0
