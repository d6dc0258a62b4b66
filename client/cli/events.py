"""`rookery events`: what the nodes recorded, of all nodes and in order of time; `--follow` goes on."""

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from rookery.client.admin import Admin
from rookery.client.cli.common import access_of, add_bootstrap, add_http, add_output, show, with_admin
from rookery.client.errors import CliError, UnhealthyError, UsageError
from rookery.client.node_pages import (
    HTTP_LISTENER,
    Access,
    PageError,
    Places,
    http_addresses,
    page,
    stream,
)
from rookery.client.record_trace import moment
from rookery.core.flight_recorder import EVENTS_MAX, Event, read_event
from rookery.core.net.cluster import parse_bootstrap

RETRY_S = 1.0
RETRY_S_MAX = 10.0
COLUMNS = ("time", "node", "level", "event", "fields")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("events", help="show what the nodes recorded: elections, ISR changes ...")
    parser.add_argument("-n", "--count", type=int, default=50, help="the last so many of each node (50)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with each event as it happens")
    parser.add_argument("--event", action="append", default=[], metavar="PREFIX", help="only isr., leader.elected, ...")
    parser.add_argument("--topic", default="", help="only those about a topic")
    parser.add_argument("--group", default="", help="only those about a group: its rebalances")
    parser.add_argument("--level", choices=("info", "warning", "error"), default="info", help="at least this (info)")
    add_http(parser)
    add_bootstrap(parser)
    add_output(parser)
    parser.set_defaults(run=with_admin(_events))


async def places_of(admin: Admin, http: str | None) -> Places:
    """Where the nodes serve their pages, by node, or by place where they were named; empty if they do not."""
    if http is None:
        return await http_addresses(admin)
    addresses = [each.strip() for each in http.split(",") if each.strip()]
    try:
        for each in addresses:
            parse_bootstrap(each.removeprefix("https://").removeprefix("http://"))
    except ValueError as error:
        raise UsageError(f"--http: {error}") from error
    return Places(dict(enumerate(addresses, 1)), {})


async def recorded(places: Places, query: str, access: Access) -> tuple[list[Event], list[str]]:
    """The events of all nodes that answer, oldest first, and why others did not."""
    found: list[Event] = []
    failures = list(places.failures.values())

    async def ask(address: str) -> None:
        try:
            rows = (await page(address, f"/events?{query}", access))["events"]
            found.extend(read_event(json.dumps(row)) for row in rows)
        except (PageError, ValueError, KeyError, TypeError) as error:
            failures.append(str(error))

    await asyncio.gather(*(ask(each) for each in places.addresses.values()))
    return sorted(found, key=lambda event: (event.at_ms, event.node, event.id)), failures


LEVELS = {"info": ("INFO", "WARNING", "ERROR", "CRITICAL"), "warning": ("WARNING", "ERROR", "CRITICAL")}


def is_shown(event: Event, level: str) -> bool:
    return event.level in LEVELS.get(level, ("ERROR", "CRITICAL"))


def row_of(event: Event) -> dict[str, Any]:
    return {
        "time": moment(event.at_ms),
        "node": event.node,
        "level": event.level.lower(),
        "event": event.name,
        "fields": dict(event.fields),
    }


def shown(rows: Sequence[Mapping[str, Any]], output: str) -> None:
    """Fields are ``key=value`` for people; the name of an event is that of its kind."""
    if output == "name":
        show([dict(row) for row in rows], ("event",), output)
        return
    if output in ("json", "jsonl", "yaml"):
        show([dict(row) for row in rows], COLUMNS, output)
        return
    flat = [{**row, "fields": " ".join(f"{key}={value}" for key, value in row["fields"].items())} for row in rows]
    show(flat, COLUMNS, output)


async def _events(admin: Admin, arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.count <= EVENTS_MAX:
        raise UsageError(f"--count {arguments.count}: 1 to {EVENTS_MAX}")
    chosen = {"event": ",".join(arguments.event), "topic": arguments.topic, "group": arguments.group}
    words = {"limit": str(arguments.count), **chosen}
    query = "&".join(f"{name}={quote(text)}" for name, text in words.items() if text)
    places = await served(admin, arguments.http)
    if arguments.follow:
        note(places.failures.values())
        await _follow(list(places.addresses.values()), query, arguments)
        return 0
    events, failures = await recorded(places, query, access_of(arguments))
    shown([row_of(event) for event in events if is_shown(event, arguments.level)], arguments.output)
    note(failures)
    if failures:
        raise UnhealthyError(f"{len(failures)} node(s) did not answer; what they recorded is missing above")
    return 0


def note(failures: Iterable[str]) -> None:
    """Nodes that did not answer, for people; what the others said is shown all the same."""
    for reason in failures:
        print(f"rookery: {reason}", file=sys.stderr)


async def served(admin: Admin, http: str | None) -> Places:
    """Where nodes serve their pages; says so if none does."""
    places = await places_of(admin, http)
    if not places.addresses:
        note(places.failures.values())
        raise CliError(
            f"no broker serves pages: its option {HTTP_LISTENER} is not set, or it is not a node of Rookery. "
            "Set it, or name nodes with --http"
        )
    return places


async def _follow(addresses: list[str], query: str, arguments: argparse.Namespace) -> None:
    """Every node by a stream of its own; one that ends is opened again after the last event that came over it."""

    access = access_of(arguments)

    async def follow(address: str) -> None:
        last: int | None = None
        pause_s, reported = RETRY_S, False
        while True:
            try:
                async for row in stream(address, f"/events?{query}", last, access):
                    event = read_event(json.dumps(row))
                    last, pause_s, reported = event.id, RETRY_S, False
                    if is_shown(event, arguments.level):
                        _print(event, arguments.output)
            except (PageError, ValueError) as error:
                if not reported:
                    print(f"rookery: {error}; trying again", file=sys.stderr)
                reported = True
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))
            pause_s = min(2 * pause_s, RETRY_S_MAX)

    async with asyncio.TaskGroup() as group:
        for address in addresses:
            group.create_task(follow(address))


def _print(event: Event, output: str) -> None:
    row = row_of(event)
    if output == "table":
        fields = " ".join(f"{key}={value}" for key, value in event.fields.items())
        print(f"{row['time']}  node {event.node}  {row['level']:<7}  {event.name}  {fields}".rstrip(), flush=True)
    elif output == "name":
        print(event.name, flush=True)
    elif output == "yaml":
        show([row], COLUMNS, output)
        sys.stdout.flush()
    else:
        print(json.dumps(row, ensure_ascii=False), flush=True)
