"""`rookery trace`: when a record was appended, who has it, whether it is committed, which groups are past it."""

import argparse
import asyncio
from typing import Any
from urllib.parse import quote

from rookery.client.admin import Admin
from rookery.client.cli.common import access_of, add_bootstrap, add_http, add_output, show, with_admin
from rookery.client.cli.events import note, places_of, recorded
from rookery.client.errors import NotFoundError
from rookery.client.node_pages import NOBODY, Access, answer_of
from rookery.client.record_trace import COLUMNS, TraceFacts, steps
from rookery.client.types import TopicPartition
from rookery.core.flight_recorder import Event, concerns

GROUPS_AT_ONCE = 8
EVENTS_MAX = 1000


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("trace", help="show the path of one record: appended, replicated, committed, read")
    parser.add_argument("topic")
    parser.add_argument("partition", type=int)
    parser.add_argument("offset", type=int)
    add_http(parser)
    add_bootstrap(parser)
    add_output(parser)
    parser.set_defaults(run=with_admin(_trace))


async def _trace(admin: Admin, arguments: argparse.Namespace) -> None:
    place = TopicPartition(arguments.topic, arguments.partition)
    facts = await facts_of(admin, place, arguments.offset, arguments.http, access_of(arguments))
    show([step.row() for step in steps(facts)], COLUMNS, arguments.output)


async def facts_of(
    admin: Admin, place: TopicPartition, offset: int, http: str | None = None, access: Access = NOBODY
) -> TraceFacts:
    topic = await admin.describe_topic(place.topic)
    partition = next((each for each in topic.partitions if each.number == place.partition), None)
    if partition is None:
        raise NotFoundError(f"{place.topic} has no partition {place.partition}: it has {len(topic.partitions)}")
    start = (await admin.list_offsets({place: "earliest"}))[place].offset
    end = (await admin.list_offsets({place: "latest"}))[place].offset
    stable = (await admin.list_offsets({place: "latest"}, read_committed=True))[place].offset
    record = await admin.describe_record(place, offset) if start <= offset < end else None
    failures: dict[int, str] = {}
    late = [each for each in partition.replicas if each not in partition.isr]
    behind, groups, events = await asyncio.gather(
        _behind(admin, place, late, failures),
        _groups(admin, place, failures),
        _events(admin, place, http, access, failures),
    )
    note(failures.values())
    return TraceFacts(
        place,
        offset,
        start,
        end,
        stable,
        partition.leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        record,
        behind,
        groups,
        events,
    )


async def _behind(
    admin: Admin, place: TopicPartition, replicas: list[int], failures: dict[int, str]
) -> dict[int, int]:
    """How far replicas that are out of sync say they are behind."""
    found = {}
    for replica in replicas:
        dirs = await answer_of(replica, admin.describe_log_dirs([replica], [place]), failures) or {}
        for folder in dirs.get(replica, ()):
            if place in folder.replicas:
                found[replica] = folder.replicas[place].offset_lag
    return found


async def _groups(admin: Admin, place: TopicPartition, failures: dict[int, str]) -> dict[str, int]:
    """The offset of each group that has one of this partition, of all coordinators that answer."""
    found: dict[str, int] = {}
    slots = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def ask(group: str) -> None:
        async with slots:
            offsets = await admin.list_group_offsets(group, [place])
        if place in offsets and offsets[place].offset >= 0:
            found[group] = offsets[place].offset

    async def ask_coordinator(broker: int) -> None:
        groups = await answer_of(broker, admin.list_groups(brokers=[broker]), failures) or []
        await asyncio.gather(*(ask(each.group_id) for each in groups))

    await asyncio.gather(*(ask_coordinator(each.id) for each in (await admin.describe_cluster()).brokers))
    return found


async def _events(
    admin: Admin, place: TopicPartition, http: str | None, access: Access, failures: dict[int, str]
) -> list[Event]:
    """What the nodes recorded about the partition; nothing where nodes record nothing."""
    query = f"limit={EVENTS_MAX}&topic={quote(place.topic)}"
    places = await places_of(admin, http)
    failures.update(places.failures)
    found, silent = await recorded(places._replace(failures={}), query, access)
    note(silent)
    return [event for event in found if concerns(event, *place)]
