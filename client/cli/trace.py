"""`rookery trace`: when a record was appended, who has it, whether it is committed, which groups are past it."""

import argparse
import asyncio
from typing import Any
from urllib.parse import quote

from rookery.client.admin import Admin
from rookery.client.cli.common import access_of, add_bootstrap, add_http, add_output, show, with_admin
from rookery.client.cli.events import recorded
from rookery.client.errors import KafkaError, NotFoundError
from rookery.client.node_pages import NOBODY, Access
from rookery.client.record_trace import COLUMNS, TraceFacts, steps
from rookery.client.types import TopicPartition
from rookery.core.flight_recorder import Event, concerns
from rookery.core.net.connection import ConnectionLostError

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
        await _behind(admin, place, [each for each in partition.replicas if each not in partition.isr]),
        await _groups(admin, place),
        await _events(admin, place, http, access),
    )


async def _behind(admin: Admin, place: TopicPartition, replicas: list[int]) -> dict[int, int]:
    """How far replicas that are out of sync say they are behind."""
    found = {}
    for replica in replicas:
        try:
            dirs = await admin.describe_log_dirs([replica], [place])
        except (KafkaError, ConnectionLostError, OSError):
            continue
        for folder in dirs[replica]:
            if place in folder.replicas:
                found[replica] = folder.replicas[place].offset_lag
    return found


async def _groups(admin: Admin, place: TopicPartition) -> dict[str, int]:
    """The offset of each group that has one of this partition."""
    found: dict[str, int] = {}
    slots = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def ask(group: str) -> None:
        async with slots:
            offsets = await admin.list_group_offsets(group, [place])
        if place in offsets and offsets[place].offset >= 0:
            found[group] = offsets[place].offset

    await asyncio.gather(*(ask(each.group_id) for each in await admin.list_groups()))
    return found


async def _events(admin: Admin, place: TopicPartition, http: str | None, access: Access) -> list[Event]:
    """What the nodes recorded about the partition; nothing where nodes record nothing."""
    found, _ = await recorded(admin, http, f"limit={EVENTS_MAX}&topic={quote(place.topic)}", access)
    return [event for event in found if concerns(event, *place)]
