"""The `rookery` command.

Only the module of the command that was asked for is imported, so `rookery --help` is quick; commands that run
a node live with the node and are found by name.
"""

import argparse
import importlib
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from rookery import __version__
from rookery.client.cli.nearest import nearest
from rookery.client.errors import CliError

COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("rookery.client.cli.up", "start a cluster on this machine; logs, stop, restart, reset"),
    "down": ("rookery.client.cli.down", "stop it"),
    "node": ("rookery.client.cli.node", "run one node in the foreground; list, describe, drain and remove nodes"),
    "topic": ("rookery.client.cli.topic", "create, list, describe, alter, trim, copy and delete topics"),
    "produce": ("rookery.client.cli.produce", "write records from standard input or a file"),
    "consume": ("rookery.client.cli.consume", "read records"),
    "group": ("rookery.client.cli.group", "list, describe, explain, reset and delete consumer groups"),
    "config": ("rookery.client.cli.config", "read and change options of topics, brokers, groups and clients"),
    "partition": ("rookery.client.cli.partition", "move replicas, limit and check moves, balance, elect leaders"),
    "transaction": ("rookery.client.cli.transaction", "list, describe, find and abort transactions"),
    "acl": ("rookery.client.cli.access:add_acl_parser", "list, create and delete ACLs"),
    "user": ("rookery.client.cli.access:add_user_parser", "list, create and delete users with SCRAM passwords"),
    "quota": ("rookery.client.cli.access:add_quota_parser", "list and set quotas"),
    "log": ("rookery.client.cli.log", "show and check files of a log offline"),
    "events": ("rookery.client.cli.events", "show what the nodes recorded: elections, ISR changes ..."),
    "trace": ("rookery.client.cli.trace", "show the path of one record: appended, replicated, committed, read"),
    "bench": ("rookery.client.cli.bench", "put load on a cluster and measure it"),
    "doctor": ("rookery.client.cli.doctor", "find what is wrong with a cluster"),
    "cluster": ("rookery.client.cli.cluster", "show nodes, controller, features and health; wait for it, watch it"),
    "quorum": ("rookery.client.cli.quorum", "show the metadata quorum and its log"),
    "metadata": ("rookery.client.cli.metadata", "show what the controller knows"),
    "context": ("rookery.client.cli.context", "name clusters, and choose the one that commands talk to"),
    "completion": ("rookery.client.cli.completion", "print a script that completes words in bash or zsh"),
    "pipeline": ("rookery.client.cli.pipeline", "run data pipelines on Spark"),
}
"""Command: the module whose `add_parser(subparsers)` (or the function after the colon) defines it, and one line of
help."""

EXIT_FAILED = 1
EXIT_CODES = "exit codes: 0 done, 1 failed, 2 wrong arguments, 3 unhealthy or not in time, 4 not found, 5 not allowed"
UNKNOWN_OPTION = re.compile(r"unrecognized arguments: .*?(--[\w-]+)")


class Parser(argparse.ArgumentParser):
    """Says which word comes nearest to one that it does not know."""

    _words: Sequence[str] = ()

    def parse_known_args(  # type: ignore[override]  # of several overloads one is in use here
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        self._words = args or ()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        option = UNKNOWN_OPTION.search(message)
        if option is not None:
            message += nearest(option[1], sorted(self.options()))
        elif "required" in message:  # what is missing may be there, with a typing error
            known = sorted(self.options())
            given = (word.partition("=")[0] for word in self._words if word.startswith("--"))
            strange = next((word for word in given if not any(each.startswith(word) for each in known)), None)
            message += f"; there is no {strange}{nearest(strange, known)}" if strange is not None else ""
        super().error(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Instead of argparse's own words, which differ between releases of Python."""
        words = [str(each) for each in action.choices or ()]
        if action.choices is not None and value not in action.choices:
            near = nearest(str(value), words) or f" (choose from {', '.join(words)})"
            raise argparse.ArgumentError(action, f"there is no {value!r}{near}")

    def options(self) -> set[str]:
        """Of this parser and all below it."""
        found: set[str] = set()
        for action in self._actions:
            found.update(option for option in action.option_strings if option.startswith("--"))
            if isinstance(action, argparse._SubParsersAction):
                found.update(option for below in action.choices.values() for option in below.options())
        return found


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser; only `command` is defined in full, the others are named."""
    parser = Parser(
        prog="rookery", description="A replicated event log that Kafka clients connect to.", epilog=EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"rookery {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, (module, text) in COMMANDS.items():
        if name == command:
            place, _, function = module.partition(":")
            getattr(importlib.import_module(place), function or "add_parser")(subparsers)
        else:
            subparsers.add_parser(name, help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in arguments if not word.startswith("-")), None)
    parsed = build_parser(command).parse_args(arguments)
    try:
        code = parsed.run(parsed)
    except CliError as error:
        print(f"rookery: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left; nothing more to say
        return EXIT_FAILED
    except OSError as error:
        if error.filename is None:
            raise
        print(f"rookery: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILED
    return int(code or 0)


if __name__ == "__main__":
    sys.exit(main())
