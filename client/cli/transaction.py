"""`rookery transaction`: who has transactions, which ones hang, and how to end them."""

import argparse
import time
from typing import Any

from rookery.client.admin import Admin
from rookery.client.cli.common import add_bootstrap, add_output, add_yes, confirm, show, with_admin
from rookery.client.errors import NotFoundError
from rookery.client.types import TopicPartition

NONE = -1


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
