"""`rookery consume` in the forms of output that all commands have: what is printed can be read again."""

import csv
import io
import json
from collections.abc import Sequence

import pytest

from rookery.client.cli.record_rows import COLUMNS, RecordRows
from rookery.client.record_format import AnyRecord
from rookery.client.types import Record


def record(offset: int, key: bytes | None, value: bytes | None) -> AnyRecord:
    return Record("t", 0, offset, 17, key, value, (("h", b"x"),) if offset else ())


RECORDS = [record(0, None, b"a,\n\"b\""), record(1, b"a long key", None)]


def printed(form: str, *batches: Sequence[AnyRecord]) -> str:
    rows = RecordRows(form)
    parts = [text for batch in batches for text in (*map(rows.add, batch), rows.flush())]
    return "".join([*parts, rows.end()])


@pytest.mark.parametrize("batches", [[RECORDS], [RECORDS[:1], RECORDS[1:]], [[], RECORDS, []]])
def test_programs_read_what_is_printed(batches: list[list[AnyRecord]]) -> None:
    rows = json.loads(printed("json", *batches))
    assert [row["value"] for row in rows] == ['a,\n"b"', None]
    assert [row["headers"] for row in rows] == [[], [["h", "x"]]]
    head, *lines = csv.reader(io.StringIO(printed("csv", *batches)))
    assert head == [name.upper() for name in COLUMNS]
    assert [line[4:6] for line in lines] == [["", 'a,\n"b"'], ["a long key", ""]]
    assert printed("yaml", *batches).count('- topic: "t"\n') == 2
    assert printed("name", *batches) == "t 0 0\nt 0 1\n"


def test_a_table_grows_wider_from_batch_to_batch() -> None:
    assert printed("table", RECORDS[:1], RECORDS[1:]).splitlines() == [
        "TOPIC  PARTITION  OFFSET  TIMESTAMP  KEY  VALUE    HEADERS",
        't      0          0       17         -    a,\\n"b"  -',
        "t      0          1       17         a long key  -        h=x",
    ]


@pytest.mark.parametrize(
    ("form", "text"),
    [("json", "[]\n"), ("yaml", "[]\n"), ("name", ""), ("csv", f"{','.join(COLUMNS)}\n".upper())],
)
def test_no_record_at_all(form: str, text: str) -> None:
    assert printed(form) == text
    assert printed("table").split() == [name.upper() for name in COLUMNS]
