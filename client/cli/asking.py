"""Asking before something that cannot be undone."""

import argparse
import sys

from rookery.client.errors import CliError, UsageError


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone: a person on a terminal, and everyone else for --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Off a terminal this needs --yes")
    try:
        said = input(f"{question} [y/N] ")
    except EOFError:  # Ctrl-D
        said = ""
    if said.strip().lower() not in ("y", "yes"):
        raise CliError("nothing was changed")


def add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
