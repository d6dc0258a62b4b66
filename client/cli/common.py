"""What the commands share: the bootstrap argument, running a coroutine, and printing tables."""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rookery.client.cli import finding
from rookery.client.errors import CliError, NotFoundError, UsageError
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.net.cluster import BootstrapError, Cluster
from rookery.core.net.connection import ConnectionLostError

OUTPUTS = ("table", "json", "jsonl", "name")


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT,...",
        help=f"some nodes of the cluster (${finding.BOOTSTRAP_VARIABLE}, the current context, the nearest "
        f"{finding.FOLDER}, {finding.DEFAULT_BOOTSTRAP})",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table", help="form of the output (table)")


def with_cluster(
    work: Callable[[Cluster, argparse.Namespace], Awaitable[int | None]],
) -> Callable[[argparse.Namespace], int]:
    """A command that needs a cluster: connects, runs, and turns failures into what a person can act on."""

    async def connected(arguments: argparse.Namespace) -> int:
        try:
            cluster = Cluster(finding.bootstrap(arguments.bootstrap), client_id="rookery-cli")
        except ValueError as error:
            raise UsageError(f"--bootstrap: {error}") from error
        async with cluster:
            return int(await work(cluster, arguments) or 0)

    def run(arguments: argparse.Namespace) -> int:
        try:
            return asyncio.run(connected(arguments))
        except (BootstrapError, ConnectionLostError, KafkaError) as error:
            raise explained(error) from error
        except ExceptionGroup as group:  # of tasks that ran side by side, the first failure speaks for all
            raise explained(group.exceptions[0]) from group

    return run


def explained(error: Exception) -> Exception:
    """The failure as a person is told of it; a bug stays what it is."""
    match error:
        case BootstrapError() | ConnectionLostError():
            return CliError(f"{error}. Is the cluster running? `rookery up` starts one")
        case KafkaError(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return NotFoundError(f"{error}. `rookery topic list` shows what there is")
        case KafkaError():
            return CliError(str(error))
    return error


def show(rows: Sequence[dict[str, Any]], columns: Sequence[str], output: str) -> None:
    """Print rows: a table for people, JSON for programs, or the first column alone."""
    if output == "json":
        print(json.dumps(list(rows), indent=1))
    elif output == "jsonl":
        for row in rows:
            print(json.dumps(row))
    elif output == "name":
        for row in rows:
            print(row[columns[0]])
    else:
        print(table(rows, columns))


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    cells = [[name.upper() for name in columns], *([_cell(row[name]) for name in columns] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)
