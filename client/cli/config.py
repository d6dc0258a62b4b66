"""`rookery config`: options of topics, brokers, groups, clients; read, set, and compared with the defaults.

Those of a client are its quotas, as for kafka-configs.sh: `client` is a short way to `rookery quota --client-id`.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from rookery.client.admin import Admin
from rookery.client.admin.types import ResourceType
from rookery.client.cli.access import QUOTAS
from rookery.client.cli.common import add_bootstrap, add_output, show, with_admin
from rookery.client.cli.nearest import nearest
from rookery.client.errors import NotFoundError, UsageError

KINDS = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP_CONFIG,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
CLIENT = "client"
DEFAULT = "default"
EVERY = "all"
COLUMNS = ("option", "value", "source")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("config", help="read and change options of topics, brokers, groups and clients")
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
    parser.add_argument("kind", choices=(*KINDS, CLIENT))
    parser.add_argument("name", help="a topic, a broker's number, a group, a client id; `all` brokers or clients")
    add_bootstrap(parser)
    return parser


def _resource(arguments: argparse.Namespace) -> tuple[ResourceType, str]:
    kind, name = KINDS[arguments.kind], arguments.name
    if kind is ResourceType.BROKER:
        if name == EVERY:
            return kind, ""
        if not name.isdigit():
            raise UsageError(f"broker {name}: the number of a broker, or `all`, is needed")
    return kind, name


async def _rows(admin: Admin, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """By name: the option as it is shown."""
    if arguments.kind == CLIENT:
        return await _quotas(admin, arguments)
    entries = await admin.describe_config(*_resource(arguments))
    return {
        each.name: {
            "option": each.name,
            "value": "(hidden)" if each.sensitive else "" if each.value is None else each.value,
            "source": each.source.name.lower().replace("_", "-"),
        }
        for each in sorted(entries.values())
    }


async def _quotas(admin: Admin, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """A client without a quota has no limit: that is its default."""
    found = await admin.describe_quotas(_client(arguments), strict=True)
    values = found[0].values if found else {}
    return {
        name: {
            "option": name,
            "value": f"{values[name]:.15g}" if name in values else "",
            "source": CLIENT if name in values else DEFAULT,
        }
        for name in sorted(QUOTAS)
    }


def _client(arguments: argparse.Namespace) -> dict[str, str | None]:
    return {"client-id": None if arguments.name == EVERY else arguments.name}


async def _change_quotas(admin: Admin, arguments: argparse.Namespace, given: Mapping[str, str | None]) -> None:
    values: dict[str, float | None] = {}
    for key, value in given.items():
        if key not in QUOTAS:
            raise UsageError(f"{key}: options of a client are {', '.join(QUOTAS)}{nearest(key, QUOTAS)}")
        try:
            values[key] = None if value is None else float(value)
        except ValueError:
            raise UsageError(f"{key}={value}: a number is needed") from None
    await admin.alter_quotas(_client(arguments), values, validate_only=arguments.dry_run)


async def _get(admin: Admin, arguments: argparse.Namespace) -> None:
    entries = await _rows(admin, arguments)
    unknown = [name for name in arguments.option if name not in entries]
    if unknown:
        hint = nearest(unknown[0], entries)
        raise NotFoundError(f"{arguments.kind} {arguments.name} has no option {unknown[0]!r}{hint}")
    wanted = [entries[name] for name in arguments.option] or list(entries.values())
    show(wanted, COLUMNS, arguments.output)


async def _diff(admin: Admin, arguments: argparse.Namespace) -> None:
    rows = (await _rows(admin, arguments)).values()
    show([row for row in rows if row["source"] != DEFAULT], COLUMNS, arguments.output)


async def _change(admin: Admin, arguments: argparse.Namespace) -> None:
    values = {}
    for each in arguments.assignment:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise UsageError(f"{each}: KEY=VALUE is needed")
        values[key] = value
    if arguments.kind == CLIENT:
        if arguments.action != "set":
            raise UsageError("options of a client are numbers, not lists: use set")
        await _change_quotas(admin, arguments, values)
        _done(arguments, ", ".join(arguments.assignment))
        return
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
    if arguments.kind == CLIENT:
        await _change_quotas(admin, arguments, dict.fromkeys(arguments.option))
    else:
        kind, name = _resource(arguments)
        await admin.alter_config(kind, name, delete=arguments.option, validate_only=arguments.dry_run)
    _done(arguments, ", ".join(arguments.option))


def _done(arguments: argparse.Namespace, what: str) -> None:
    words = {"set": "set", "append": "appended", "subtract": "subtracted", "unset": "back to the default"}
    done = f"{words[arguments.action]}: {what}"
    print(f"{arguments.kind} {arguments.name}: {'allowed, not changed: ' if arguments.dry_run else ''}{done}")
