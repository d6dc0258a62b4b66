"""Asking before something that cannot be undone."""

import argparse
import sys

from rookery.client.errors import CliError, UsageError


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone: a person on a terminal, and everyone else for --yes. Standard output
    is for what programs read: it may go to a file while a person types."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Off a terminal this needs --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        said = input()
    except EOFError:  # Ctrl-D
        print(file=sys.stderr)
        said = ""
    if said.strip().lower() not in ("y", "yes"):
        raise CliError("nothing was changed")


def add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
