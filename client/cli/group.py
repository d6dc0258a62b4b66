"""`rookery group`: who consumes what, how far behind it is and why; reset and delete."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rookery.client.admin import Admin
from rookery.client.cli.common import (
    access_of,
    add_bootstrap,
    add_output,
    add_yes,
    confirm,
    show,
    table,
    with_admin,
)
from rookery.client.cli.group_facts import described, facts_of, lag_seconds, log_of, with_causes
from rookery.client.cli.places import chosen, read_offsets, since_ms
from rookery.client.errors import CliError, UsageError
from rookery.client.group_report import Finding, GroupFacts, explain
from rookery.client.types import OffsetAndMetadata, TopicPartition
from rookery.core.errors import GroupIdNotFoundError

COLUMNS = (
    "group", "topic", "partition", "current-offset", "log-end-offset", "lag", "lag-seconds", "consumer-id", "host",
    "client-id",
)  # fmt: skip
MEMBER_COLUMNS = ("group", "consumer-id", "host", "client-id", "group-instance-id", "partitions", "assignment")
RESETS = ("to-earliest", "to-latest", "to-current")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("group", help="list, describe, explain, reset and delete consumer groups")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)

    listing = actions.add_parser("list", help="list groups of all kinds")
    add_bootstrap(listing)
    add_output(listing)
    listing.set_defaults(run=with_admin(_list))

    describe = actions.add_parser("describe", help="show offsets and lag of each partition, and who reads it")
    describe.add_argument("group")
    describe.add_argument("--members", action="store_true", help="show the members and what they have")
    add_bootstrap(describe)
    add_output(describe)
    describe.set_defaults(run=with_admin(_describe))

    members = actions.add_parser("members", help="show the members of a group and what each has")
    members.add_argument("group")
    add_bootstrap(members)
    add_output(members)
    members.set_defaults(run=with_admin(_members))

    why = actions.add_parser("explain", help="say why a group lags, and what helps")
    why.add_argument("group")
    why.add_argument("--topic", action="append", default=[], metavar="NAME[:P,...]", help="only the lag there (all)")
    why.add_argument("--sample", type=float, default=2.0, metavar="SECONDS", help="time between two looks (2)")
    add_bootstrap(why)
    add_output(why)
    why.set_defaults(run=with_admin(_explain))

    reset = actions.add_parser("reset", help="set the offsets of a group without members")
    reset.add_argument("group")
    reset.add_argument("--topic", action="append", default=[], metavar="NAME[:P,...]", help="only these (all)")
    to = reset.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", action="store_true", help="to the first record there is")
    to.add_argument("--to-latest", action="store_true", help="past the last one")
    to.add_argument("--to-current", action="store_true", help="to where it is, as a commit of its own")
    to.add_argument("--to-offset", type=int, metavar="N", help="to an offset")
    to.add_argument("--to-datetime", metavar="TIME", help="to the first record since 2026-01-31T12:00:00")
    to.add_argument("--by-duration", metavar="AGE", help="to the first record of the last 90s, 15m, 6h or 7d")
    to.add_argument("--shift-by", type=int, metavar="N", help="ahead by N records, back if negative")
    to.add_argument("--from-file", type=Path, metavar="FILE", help="to what `export` wrote")
    reset.add_argument("--dry-run", action="store_true", help="only show what would be set")
    add_yes(reset)
    add_bootstrap(reset)
    add_output(reset)
    reset.set_defaults(run=with_admin(_reset))

    delete = actions.add_parser("delete", help="delete a group without members, and its offsets")
    delete.add_argument("group")
    add_yes(delete)
    add_bootstrap(delete)
    delete.set_defaults(run=with_admin(_delete))

    forget = actions.add_parser("delete-offsets", help="delete the offsets of a topic that no member subscribes to")
    forget.add_argument("group")
    forget.add_argument("--topic", action="append", required=True, metavar="NAME[:P,...]")
    add_yes(forget)
    add_bootstrap(forget)
    forget.set_defaults(run=with_admin(_delete_offsets))

    put = actions.add_parser("import", help="set the offsets of a group without members to what `export` wrote")
    put.add_argument("group")
    put.add_argument("from_file", type=Path, metavar="FILE")
    put.add_argument("--dry-run", action="store_true", help="only show what would be set")
    add_yes(put)
    add_bootstrap(put)
    add_output(put)
    put.set_defaults(run=with_admin(_reset))

    export = actions.add_parser("export", help="print the offsets as JSON, for `import`")
    export.add_argument("group")
    add_bootstrap(export)
    export.set_defaults(run=with_admin(_export))


# --- looking ------------------------------------------------------------------------------------------------


async def _list(admin: Admin, arguments: argparse.Namespace) -> None:
    rows = [
        {"group": each.group_id, "type": each.type, "protocol": each.protocol_type or "-", "state": each.state}
        for each in await admin.list_groups()
    ]
    show(rows, ("group", "type", "protocol", "state"), arguments.output)


async def _describe(admin: Admin, arguments: argparse.Namespace) -> None:
    if arguments.members:
        await _members(admin, arguments)
        return
    facts = await facts_of(admin, arguments.group)
    ages, owners = await lag_seconds(admin, facts), facts.owners()
    rows = []
    for each in facts.partitions:
        owner = owners.get(each.place)
        rows.append(
            {
                "group": arguments.group,
                "topic": each.place.topic,
                "partition": each.place.partition,
                "current-offset": each.committed if each.committed >= 0 else "-",
                "log-end-offset": each.end,
                "lag": each.lag,
                "lag-seconds": ages.get(each.place, 0 if not each.lag else "-"),
                "consumer-id": owner.member_id if owner is not None else "-",
                "host": owner.host if owner is not None else "-",
                "client-id": owner.client_id if owner is not None else "-",
            }
        )
    if arguments.output == "table":
        group = facts.group
        print(
            f"group {group.group_id}  type {group.type}  state {group.state}  assignor {group.assignor or '-'}  "
            f"coordinator {group.coordinator}  members {len(group.members)}  lag {facts.lag}"
        )
        if not rows:
            return
    show(rows, COLUMNS, arguments.output)


async def _members(admin: Admin, arguments: argparse.Namespace) -> None:
    group = await described(admin, arguments.group)
    rows = [
        {
            "group": group.group_id,
            "consumer-id": member.member_id,
            "host": member.host,
            "client-id": member.client_id,
            "group-instance-id": member.group_instance_id or "-",
            "partitions": len(member.assignment),
            "assignment": [f"{place.topic}-{place.partition}" for place in sorted(member.assignment)],
        }
        for member in group.members
    ]
    show(rows, MEMBER_COLUMNS, arguments.output)


async def _explain(admin: Admin, arguments: argparse.Namespace) -> None:
    facts = await facts_of(admin, arguments.group)
    if facts.group.members and facts.lag and arguments.sample > 0:
        await asyncio.sleep(arguments.sample)
        facts = await facts_of(admin, arguments.group, facts, arguments.sample)
    if arguments.topic:
        asked = set(await chosen(admin, arguments.topic))
        facts = replace(facts, partitions=[each for each in facts.partitions if each.place in asked])
    findings = explain(await with_causes(admin, facts, access_of(arguments)))
    if arguments.output != "table":
        rows = [{"reason": each.reason, "remedies": list(each.remedies)} for each in findings]
        show(rows, ("reason", "remedies"), arguments.output)
        return
    print(paragraph(facts, findings))


def paragraph(facts: GroupFacts, findings: list[Finding]) -> str:
    """What `explain` prints: the state in one line, then each reason and what helps."""
    group = facts.group
    head = (
        f"Group {group.group_id} ({group.type}, {group.state}, {len(group.members)} member(s)) "
        f"reads {len(facts.partitions)} partition(s) and is {facts.lag} record(s) behind."
    )
    if not findings:
        return f"{head} {'It is up to date.' if facts.partitions else 'It has committed nothing so far.'}"
    lines = [head]
    for finding in findings:
        lines.append(f"- {finding.reason[0].upper()}{finding.reason[1:]}.")
        lines += [f"    {number}. {remedy}" for number, remedy in enumerate(finding.remedies, 1)]
    return "\n".join(lines)


# --- changing -----------------------------------------------------------------------------------------------


async def _reset(admin: Admin, arguments: argparse.Namespace) -> None:
    name = arguments.group
    try:
        state = (await admin.describe_group(name)).members
    except GroupIdNotFoundError:
        state = []
    if state:
        raise CliError(
            f"group {name} has {len(state)} member(s): offsets of a group in use cannot be set. "
            "Stop its consumers first"
        )
    current = await admin.list_group_offsets(name)
    if arguments.from_file is not None:
        wanted = read_offsets(arguments.from_file)
    else:
        wanted = await _wanted(admin, arguments, current)
    if not wanted:
        raise UsageError(f"group {name} has no offsets, and no --topic was named: there is nothing to reset")
    rows = [
        {
            "group": name,
            "topic": place.topic,
            "partition": place.partition,
            "current-offset": current[place].offset if place in current else "-",
            "new-offset": offset,
        }
        for place, offset in sorted(wanted.items())
    ]
    columns = ("group", "topic", "partition", "current-offset", "new-offset")
    if arguments.dry_run:
        show(rows, columns, arguments.output)
        return
    if not arguments.yes and sys.stdin.isatty():
        print(table(rows, columns), file=sys.stderr)
    confirm(f"Set {len(rows)} offset(s) of group {name}?", yes=arguments.yes)
    await admin.alter_group_offsets(name, wanted)
    show(rows, columns, arguments.output)


async def _wanted(
    admin: Admin, arguments: argparse.Namespace, current: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, int]:
    places = await chosen(admin, arguments.topic) if arguments.topic else sorted(current)
    if not places:
        return {}
    starts, ends, _ = await log_of(admin, places)
    if arguments.to_earliest:
        found = starts
    elif arguments.to_latest:
        found = ends
    elif arguments.to_offset is not None:
        found = dict.fromkeys(places, arguments.to_offset)
    elif arguments.to_current or arguments.shift_by is not None:
        found = {place: current[place].offset + (arguments.shift_by or 0) for place in places if place in current}
    else:
        since = since_ms(arguments.to_datetime, arguments.by_duration)
        listed = await admin.list_offsets(dict.fromkeys(places, since))
        found = {place: each.offset if each.offset >= 0 else ends[place] for place, each in listed.items()}
    return {place: min(max(offset, starts[place]), ends[place]) for place, offset in found.items() if place in ends}


async def _delete(admin: Admin, arguments: argparse.Namespace) -> None:
    await described(admin, arguments.group)
    confirm(f"Delete group {arguments.group} and its offsets?", yes=arguments.yes)
    await admin.delete_group(arguments.group)
    print(f"deleted group {arguments.group}")


async def _delete_offsets(admin: Admin, arguments: argparse.Namespace) -> None:
    places = await chosen(admin, arguments.topic)
    confirm(f"Forget {len(places)} offset(s) of group {arguments.group}?", yes=arguments.yes)
    await admin.delete_group_offsets(arguments.group, places)
    print(f"group {arguments.group} has no offsets of {', '.join(arguments.topic)} any more")


async def _export(admin: Admin, arguments: argparse.Namespace) -> None:
    await described(admin, arguments.group)
    offsets = await admin.list_group_offsets(arguments.group)
    rows = [
        {"topic": place.topic, "partition": place.partition, "offset": each.offset, "metadata": each.metadata}
        for place, each in sorted(offsets.items())
    ]
    print(json.dumps(rows, indent=1))
