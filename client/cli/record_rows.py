"""Records as rows, in every form of output, written as they come: nobody knows how many there will be."""

import csv
import io
import json
from typing import Any

from rookery.client.cli.printing import cell, yaml_entry
from rookery.client.record_format import AnyRecord, row_of

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
NULL = "-"


class RecordRows:
    """What to print for each record, at the end of each batch of them, and at the very end."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._begun = False
        self._waiting: list[list[str]] = []
        """Lines of a table: they are set side by side with those of the same batch."""
        self._widths = [0] * len(COLUMNS)

    def add(self, record: AnyRecord) -> str:
        row = row_of(record)
        first, self._begun = not self._begun, True
        match self._form:
            case "json":
                return ("[\n " if first else ",\n ") + json.dumps(row, ensure_ascii=False)
            case "yaml":
                return yaml_entry(row) + "\n"
            case "csv":
                return (_csv(_head()) if first else "") + _csv(_cells(row, ""))
            case "name":
                return f"{record.topic} {record.partition} {record.offset}\n"
        self._waiting += [_head()] if first else []
        self._waiting.append([text.replace("\n", "\\n") for text in _cells(row, NULL)])
        return ""

    def flush(self) -> str:
        """Columns become wider where a later record needs that, and never narrower."""
        lines, self._waiting = self._waiting, []
        self._widths = [max(map(len, column)) for column in zip(*lines, [" " * n for n in self._widths], strict=True)]
        padded = ("  ".join(map(str.ljust, line, self._widths)).rstrip() for line in lines)
        return "".join(f"{line}\n" for line in padded)

    def end(self) -> str:
        """Closes what was begun, and says it where there was no record."""
        match self._form:
            case "json":
                return "\n]\n" if self._begun else "[]\n"
            case "yaml":
                return "" if self._begun else "[]\n"
            case "csv":
                return "" if self._begun else _csv(_head())
            case "table" if not self._begun:
                self._waiting.append(_head())
        return self.flush()


def _head() -> list[str]:
    return [name.upper() for name in COLUMNS]


def _cells(row: dict[str, Any], null: str) -> list[str]:
    headers = [f"{name}={value}" for name, value in row["headers"]]
    return [null if value is None else cell(value) for value in (*(row[name] for name in COLUMNS[:-1]), headers)]


def _csv(cells: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()
