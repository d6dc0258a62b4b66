"""`rookery log`: segments and indexes of a partition's folder, shown and checked offline."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rookery.client.cli.common import add_output, show
from rookery.client.errors import CliError, NotFoundError
from rookery.client.log_inspection import (
    InspectionError,
    batch_rows,
    check_partition,
    offset_entries,
    partitions_in,
    records_of,
    time_entries,
)
from rookery.core.log.scan import Invalid

EXIT_DAMAGED = 3
BATCH_COLUMNS = (
    "base-offset", "last-offset", "count", "position", "size", "max-timestamp", "codec", "leader-epoch", "producer-id",
    "producer-epoch", "base-sequence", "transactional", "control",
)  # fmt: skip
RECORD_COLUMNS = ("offset", "timestamp", "key", "value", "headers")
REPORT_COLUMNS = ("partition", "segments", "batches", "bytes", "first-offset", "next-offset", "gaps", "damage")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("log", help="show and check files of a log offline")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)

    dump = actions.add_parser("dump", help="show the batches of a .log, or the entries of an .index or .timeindex")
    dump.add_argument("file", type=Path)
    dump.add_argument("--records", action="store_true", help="show the records in the batches")
    add_output(dump)
    dump.set_defaults(run=_dump)

    verify = actions.add_parser(
        "verify", help="read every byte of partitions that no node works in; exit code 3 if something is damaged"
    )
    verify.add_argument("folder", type=Path, nargs="+", help="a partition's folder, or one of log.dirs")
    add_output(verify)
    verify.set_defaults(run=_verify)


def _dump(arguments: argparse.Namespace) -> int:
    path: Path = arguments.file
    try:
        if path.suffix == ".index":
            rows = [{"offset": offset, "position": position} for offset, position in offset_entries(path)]
            show(rows, ("offset", "position"), arguments.output)
        elif path.suffix == ".timeindex":
            rows = [{"timestamp": timestamp, "offset": offset} for timestamp, offset in time_entries(path)]
            show(rows, ("timestamp", "offset"), arguments.output)
        elif arguments.records:
            show(list(_records(path)), RECORD_COLUMNS, arguments.output)
        else:
            show(list(batch_rows(path)), BATCH_COLUMNS, arguments.output)
    except InspectionError as error:
        raise NotFoundError(str(error)) from error
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: there is no such file") from error
    except Invalid as error:
        raise CliError(f"{path}: {error}. `rookery log verify {path.parent}` shows what can be read") from error
    return 0


def _records(path: Path) -> Iterator[dict[str, Any]]:
    def text(data: Any) -> str | None:
        return None if data is None else bytes(data).decode(errors="replace")

    for _, record in records_of(path):
        yield {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": text(record.key),
            "value": text(record.value),
            "headers": [f"{header.key}={text(header.value)}" for header in record.headers],
        }


def _verify(arguments: argparse.Namespace) -> int:
    try:
        folders = [partition for folder in arguments.folder for partition in partitions_in(folder)]
        reports = [check_partition(folder) for folder in folders]
    except InspectionError as error:
        raise NotFoundError(str(error)) from error
    rows = [{**report.row(), "reasons": [each._asdict() for each in report.damage]} for report in reports]
    show(rows, REPORT_COLUMNS, arguments.output)
    damage = [each for report in reports for each in report.damage]
    if arguments.output == "table":
        for each in damage:
            print(f"{each.file} at byte {each.position}: {each.why}")
    return EXIT_DAMAGED if damage else 0
