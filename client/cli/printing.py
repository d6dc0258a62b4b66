"""Rows printed for people and for programs; colours and progress on a terminal alone."""

import argparse
import csv
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

COLOURS = {"red": "31", "green": "32", "yellow": "33"}
OUTPUTS = ("table", "json", "jsonl", "yaml", "csv", "name")


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table", help="form of the output (table)")


def show(rows: Sequence[dict[str, Any]], columns: Sequence[str], output: str) -> None:
    """Print rows: a table for people, JSON for programs, or the first column alone."""
    if output == "json":
        print(json.dumps(list(rows), indent=1))
    elif output == "jsonl":
        for row in rows:
            print(json.dumps(row))
    elif output == "yaml":
        print("\n".join(yaml_entry(row) for row in rows) or "[]")
    elif output == "csv":
        out = csv.writer(sys.stdout, lineterminator="\n")
        out.writerow([name.upper() for name in columns])
        out.writerows([cell(row[name]) for name in columns] for row in rows)
    elif output == "name":
        for row in rows:
            print(row[columns[0]])
    else:
        print(table(rows, columns))


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    cells = [[name.upper() for name in columns], *([cell(row[name]) for name in columns] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)


def yaml_entry(row: dict[str, Any]) -> str:
    """One entry of a list; JSON's values are YAML's."""
    lines = [f"{key}: {json.dumps(value)}" for key, value in row.items()]
    return "- " + "\n  ".join(lines)


def cell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)


def painted(text: str, colour: str, out: TextIO | None = None) -> str:
    """The text in a colour, if it goes to a terminal and NO_COLOR does not forbid it."""
    if not (out or sys.stdout).isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"


class Progress:
    """How far something is, in one line of standard error that each report overwrites; on a terminal alone."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._shown = 0

    def report(self, text: str) -> None:
        if self._out.isatty():
            print(f"\r{text.ljust(self._shown)}", end="", file=self._out, flush=True)
            self._shown = len(text)

    def end(self) -> None:
        """Takes the line away: what comes of it is said elsewhere."""
        self.report("")
        if self._out.isatty():
            print("\r", end="", file=self._out, flush=True)
