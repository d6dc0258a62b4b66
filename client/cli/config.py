"""`rookery config`: options of topics, brokers, groups; read, set, and compared with the defaults."""

import argparse
from collections.abc import Mapping
from typing import Any

from rookery.client.admin import Admin
from rookery.client.admin.types import ConfigEntry, ResourceType
from rookery.client.cli.common import add_bootstrap, add_output, show, with_admin
from rookery.client.errors import NotFoundError, UsageError

KINDS = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP_CONFIG,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
COLUMNS = ("option", "value", "source")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("config", help="read and change options of topics, brokers and groups")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)

    get = _verb(actions, "get", "show options and where each value comes from")
    get.add_argument("option", nargs="*", help="only these")
    add_output(get)
    get.set_defaults(run=with_admin(_get))

    diff = _verb(actions, "diff", "show what differs from the defaults")
    add_output(diff)
    diff.set_defaults(run=with_admin(_diff))

    for name, text in (
        ("set", "set options"),
        ("append", "add to options that are lists"),
        ("subtract", "take from options that are lists"),
    ):
        verb = _verb(actions, name, text)
        verb.add_argument("assignment", nargs="+", metavar="KEY=VALUE")
        verb.add_argument("--dry-run", action="store_true", help="only check whether it is allowed")
        verb.set_defaults(run=with_admin(_change))

    unset = _verb(actions, "unset", "go back to the default")
    unset.add_argument("option", nargs="+")
    unset.add_argument("--dry-run", action="store_true", help="only check whether it is allowed")
    unset.set_defaults(run=with_admin(_unset))


def _verb(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("name", help="a topic, a broker's number (or `all` for every broker), a group")
    add_bootstrap(parser)
    return parser


def _resource(arguments: argparse.Namespace) -> tuple[ResourceType, str]:
    kind, name = KINDS[arguments.kind], arguments.name
    if kind is ResourceType.BROKER:
        if name == "all":
            return kind, ""
        if not name.isdigit():
            raise UsageError(f"broker {name}: the number of a broker, or `all`, is needed")
    return kind, name


async def _entries(admin: Admin, arguments: argparse.Namespace) -> Mapping[str, ConfigEntry]:
    return await admin.describe_config(*_resource(arguments))


def _rows(entries: list[ConfigEntry]) -> list[dict[str, Any]]:
    return [
        {
            "option": each.name,
            "value": "(hidden)" if each.sensitive else "" if each.value is None else each.value,
            "source": each.source.name.lower().replace("_", "-"),
        }
        for each in sorted(entries)
    ]


async def _get(admin: Admin, arguments: argparse.Namespace) -> None:
    entries = await _entries(admin, arguments)
    unknown = [name for name in arguments.option if name not in entries]
    if unknown:
        from difflib import get_close_matches

        near = get_close_matches(unknown[0], entries, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise NotFoundError(f"{arguments.kind} {arguments.name} has no option {unknown[0]!r}{hint}")
    wanted = [entries[name] for name in arguments.option] or list(entries.values())
    show(_rows(wanted), COLUMNS, arguments.output)


async def _diff(admin: Admin, arguments: argparse.Namespace) -> None:
    entries = await _entries(admin, arguments)
    show(_rows([each for each in entries.values() if not each.is_default]), COLUMNS, arguments.output)


async def _change(admin: Admin, arguments: argparse.Namespace) -> None:
    values = {}
    for each in arguments.assignment:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise UsageError(f"{each}: KEY=VALUE is needed")
        values[key] = value
    kind, name = _resource(arguments)
    dry = arguments.dry_run
    if arguments.action == "set":
        await admin.alter_config(kind, name, values, validate_only=dry)
    elif arguments.action == "append":
        await admin.alter_config(kind, name, append=values, validate_only=dry)
    else:
        await admin.alter_config(kind, name, subtract=values, validate_only=dry)
    _done(arguments, ", ".join(f"{key}={value}" for key, value in values.items()))


async def _unset(admin: Admin, arguments: argparse.Namespace) -> None:
    kind, name = _resource(arguments)
    await admin.alter_config(kind, name, delete=arguments.option, validate_only=arguments.dry_run)
    _done(arguments, ", ".join(arguments.option))


def _done(arguments: argparse.Namespace, what: str) -> None:
    words = {"set": "set", "append": "appended", "subtract": "subtracted", "unset": "back to the default"}
    done = f"{words[arguments.action]}: {what}"
    print(f"{arguments.kind} {arguments.name}: {'allowed, not changed: ' if arguments.dry_run else ''}{done}")
