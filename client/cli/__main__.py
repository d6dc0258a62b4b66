"""The `rookery` command.

Only the module of the command that was asked for is imported, so `rookery --help` is quick; commands that run
a node live with the node and are found by name.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from rookery import __version__
from rookery.client.errors import CliError

COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("rookery.client.cli.up", "start a cluster on this machine"),
    "down": ("rookery.client.cli.down", "stop it"),
    "node": ("rookery.broker.node.command", "run one node in the foreground"),
    "topic": ("rookery.client.cli.topic", "create, list, describe, grow and delete topics"),
    "produce": ("rookery.client.cli.produce", "write records from standard input or a file"),
    "consume": ("rookery.client.cli.consume", "read records"),
    "cluster": ("rookery.client.cli.cluster", "show nodes, controller and health"),
    "quorum": ("rookery.client.cli.quorum", "show the metadata quorum and its log"),
    "metadata": ("rookery.client.cli.metadata", "show what the controller knows"),
    "pipeline": ("rookery.client.cli.pipeline", "run data pipelines on Spark"),
}
"""Command: the module whose `add_parser(subparsers)` defines it, and one line of help."""

EXIT_FAILED = 1


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser; only `command` is defined in full, the others are named."""
    parser = argparse.ArgumentParser(
        prog="rookery", description="A replicated event log that Kafka clients connect to."
    )
    parser.add_argument("--version", action="version", version=f"rookery {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, (module, text) in COMMANDS.items():
        if name == command:
            importlib.import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in arguments if word in COMMANDS), None)
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
    return int(code or 0)


if __name__ == "__main__":
    sys.exit(main())
