"""`rookery transaction`: who has transactions, which ones hang, and how to end them."""

import argparse
import time
from collections.abc import Collection, Sequence
from typing import Any

from rookery.client.admin import Admin
from rookery.client.admin.types import TopicDescription
from rookery.client.cli.common import add_bootstrap, add_output, add_yes, confirm, show, with_admin
from rookery.client.diagnosis import Orphan
from rookery.client.errors import NotFoundError
from rookery.client.types import TopicPartition

NONE = -1
EXIT_FOUND = 3
TIMEOUT_MAX = "transaction.max.timeout.ms"
TIMEOUT_MAX_MS = 900_000
GRACE_S = 60.0
"""A coordinator aborts within seconds what has reached its timeout."""
HANGING_COLUMNS = ("topic", "partition", "producer-id", "start-offset", "open-seconds")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("transaction", help="list, describe, find and abort transactions")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)

    listing = actions.add_parser("list", help="list transactional ids")
    add_bootstrap(listing)
    add_output(listing)
    listing.set_defaults(run=with_admin(_list))

    describe = actions.add_parser("describe", help="show one transaction")
    describe.add_argument("id", help="a transactional id")
    add_bootstrap(describe)
    add_output(describe)
    describe.set_defaults(run=with_admin(_describe))

    producers = actions.add_parser("producers", help="show the producers that a partition knows")
    producers.add_argument("topic")
    producers.add_argument("partition", type=int)
    add_bootstrap(producers)
    add_output(producers)
    producers.set_defaults(run=with_admin(_producers))

    hanging = actions.add_parser("hanging", help="find transactions that no coordinator will end; exit code 3 if any")
    add_bootstrap(hanging)
    add_output(hanging)
    hanging.set_defaults(run=with_admin(_hanging))

    abort = actions.add_parser("abort", help="end a transaction that hangs on one partition")
    abort.add_argument("topic")
    abort.add_argument("partition", type=int)
    abort.add_argument("--start-offset", type=int, required=True, help="where it begins, as `producers` shows")
    add_yes(abort)
    add_bootstrap(abort)
    abort.set_defaults(run=with_admin(_abort))


async def _list(admin: Admin, arguments: argparse.Namespace) -> None:
    rows = [
        {"transactional-id": each.transactional_id, "producer-id": each.producer_id, "transaction-state": each.state}
        for each in await admin.list_transactions()
    ]
    show(rows, ("transactional-id", "producer-id", "transaction-state"), arguments.output)


async def _describe(admin: Admin, arguments: argparse.Namespace) -> None:
    each = await admin.describe_transaction(arguments.id)
    open_s: float | str = "-"
    if each.start_time_ms > 0:
        open_s = round(time.time() - each.start_time_ms / 1000, 1)
    row = {
        "transactional-id": each.transactional_id,
        "coordinator": each.coordinator,
        "producer-id": each.producer_id,
        "producer-epoch": each.producer_epoch,
        "transaction-state": each.state,
        "timeout-ms": each.timeout_ms,
        "open-seconds": open_s,
        "partitions": [str(place) for place in each.partitions],
    }
    show([row], tuple(row), arguments.output)


async def _producers(admin: Admin, arguments: argparse.Namespace) -> None:
    place = TopicPartition(arguments.topic, arguments.partition)
    found = (await admin.describe_producers([place]))[place]
    rows = [
        {
            "producer-id": each.producer_id,
            "producer-epoch": each.epoch,
            "latest-coordinator-epoch": each.coordinator_epoch,
            "last-sequence": each.last_sequence,
            "last-timestamp": each.last_timestamp,
            "current-transaction-start-offset": "none"
            if each.transaction_start_offset == NONE
            else each.transaction_start_offset,
        }
        for each in found
    ]
    columns = (
        "producer-id", "producer-epoch", "latest-coordinator-epoch", "last-sequence", "last-timestamp",
        "current-transaction-start-offset",
    )  # fmt: skip
    show(rows, columns, arguments.output)


async def _abort(admin: Admin, arguments: argparse.Namespace) -> None:
    place = TopicPartition(arguments.topic, arguments.partition)
    for each in (await admin.describe_producers([place]))[place]:
        if each.transaction_start_offset == arguments.start_offset >= 0:
            confirm(f"Abort the transaction of producer {each.producer_id} on {place}?", yes=arguments.yes)
            await admin.abort_transaction(place, each)
            print(f"aborted the transaction of producer {each.producer_id} on {place}")
            return
    raise NotFoundError(f"no transaction of {place} begins at {arguments.start_offset}; `producers` shows them")


async def _hanging(admin: Admin, arguments: argparse.Namespace) -> int:
    topics = await admin.describe_topics(await admin.list_topics(internal=True))
    rows = [
        dict(
            zip(
                HANGING_COLUMNS,
                (*each.place, each.producer_id, each.start_offset, round(each.open_s)),
                strict=True,
            )
        )
        for each in await orphans(admin, list(topics.values()))
    ]
    show(rows, HANGING_COLUMNS, arguments.output)
    return EXIT_FOUND if rows else 0


async def orphans(
    admin: Admin, topics: Sequence[TopicDescription], leaders: Collection[int] | None = None
) -> list[Orphan]:
    """Transactions that are open for longer than the brokers allow, where one of `leaders` leads. Only partitions with
    records that readers of committed data do not get are asked further."""
    led = [
        TopicPartition(topic.name, each.number)
        for topic in topics
        for each in topic.partitions
        if (each.leader >= 0 if leaders is None else each.leader in leaders)
    ]
    ends = await admin.list_offsets(dict.fromkeys(led, "latest"))
    stable = await admin.list_offsets(dict.fromkeys(led, "latest"), read_committed=True)
    waiting = [place for place in led if stable[place].offset < ends[place].offset]
    if not waiting:
        return []
    longest_s = await _timeout_max_s(admin)
    found = []
    for place, producers in (await admin.describe_producers(waiting)).items():
        for each in producers:
            open_s = time.time() - each.last_timestamp / 1000
            if each.transaction_start_offset >= 0 and open_s > longest_s + GRACE_S:
                found.append(Orphan(place, each.producer_id, each.transaction_start_offset, open_s))
    return found


async def _timeout_max_s(admin: Admin) -> float:
    """The longest that a broker allows."""
    found = [TIMEOUT_MAX_MS]
    for broker in (await admin.describe_cluster()).brokers:
        entries = await admin.describe_broker_config(broker.id, [TIMEOUT_MAX])
        found += [int(each.value) for each in entries.values() if each.value]
    return max(found) / 1000
