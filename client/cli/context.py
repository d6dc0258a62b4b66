"""`rookery context`: named clusters, one of them current."""

import argparse
import os
import re
from pathlib import Path
from typing import Any

from rookery.client.cli.contexts import KEYS, Contexts, contexts_path, read_contexts, write_contexts
from rookery.client.cli.printing import add_output, show
from rookery.client.errors import NotFoundError, UsageError

NAME = re.compile(r"[A-Za-z0-9_.-]+")
COLUMNS = ("context", "current", "bootstrap", "controllers", "command-config")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("context", help="name clusters, and choose the one that commands talk to")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)

    listing = actions.add_parser("list", help="list the contexts")
    add_output(listing)
    listing.set_defaults(run=_list)

    current = actions.add_parser("current", help="print the name of the current one")
    current.set_defaults(run=_current)

    add = actions.add_parser("add", help="add a context, or change one; the first becomes the current one")
    add.add_argument("name")
    add.add_argument("--bootstrap", metavar="HOST:PORT,...", required=True, help="some brokers of the cluster")
    add.add_argument("--controllers", metavar="HOST:PORT,...", help="its controllers, for `quorum` and `metadata`")
    add.add_argument("--command-config", type=Path, metavar="FILE", help="properties for TLS or SASL")
    add.add_argument("--use", action="store_true", help="and make it the current one")
    add.set_defaults(run=_add)

    use = actions.add_parser("use", help="make a context the current one")
    use.add_argument("name")
    use.set_defaults(run=_use)

    remove = actions.add_parser("remove", help="forget a context")
    remove.add_argument("name")
    remove.set_defaults(run=_remove)


def _known(contexts: Contexts, name: str) -> None:
    if name not in contexts.contexts:
        there = ", ".join(sorted(contexts.contexts)) or "none"
        raise NotFoundError(f"there is no context {name!r}; there are: {there}")


def _list(arguments: argparse.Namespace) -> int:
    found = read_contexts(os.environ)
    rows = [
        {
            "context": name,
            "current": "*" if name == found.name_in_use(os.environ) else "",
            **{key: each.get(key, "-") for key in KEYS},
        }
        for name, each in sorted(found.contexts.items())
    ]
    show(rows, COLUMNS, arguments.output)
    return 0


def _current(arguments: argparse.Namespace) -> int:
    name = read_contexts(os.environ).name_in_use(os.environ)
    if not name:
        raise NotFoundError("no context is current; `rookery context use NAME` chooses one")
    print(name)
    return 0


def _add(arguments: argparse.Namespace) -> int:
    if not NAME.fullmatch(arguments.name):
        raise UsageError(f"{arguments.name}: letters, digits, dots, - and _ are allowed in a name")
    found = read_contexts(os.environ)
    context = {"bootstrap": arguments.bootstrap}
    if arguments.controllers:
        context["controllers"] = arguments.controllers
    if arguments.command_config is not None:
        context["command-config"] = str(arguments.command_config.resolve())
    found.contexts[arguments.name] = context
    if arguments.use or not found.current:
        found.current = arguments.name
    write_contexts(os.environ, found)
    print(f"context {arguments.name} is in {contexts_path(os.environ)}; current is {found.current}")
    return 0


def _use(arguments: argparse.Namespace) -> int:
    found = read_contexts(os.environ)
    _known(found, arguments.name)
    found.current = arguments.name
    write_contexts(os.environ, found)
    print(f"commands talk to {found.contexts[arguments.name].get('bootstrap', 'what the context says')} now")
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    found = read_contexts(os.environ)
    _known(found, arguments.name)
    del found.contexts[arguments.name]
    if found.current == arguments.name:
        found.current = ""
    write_contexts(os.environ, found)
    print(f"context {arguments.name} is forgotten")
    return 0
