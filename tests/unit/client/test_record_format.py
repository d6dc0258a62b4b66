"""The percent formats of `rookery consume`."""

import pytest

from rookery.client.record_format import Format, FormatError, json_line
from rookery.client.types import Record

RECORD: Record[bytes | None, bytes | None] = Record(
    "orders", 2, 41, 1_700_000_000_123, b"k1", b'{"a":1}', (("h1", b"x"), ("h2", None)), 7
)
NULLS: Record[bytes | None, bytes | None] = Record("orders", 0, 0, 5, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t/%p/%o", b"orders/2/41"),
        ("%k=%v\\n", b'k1={"a":1}\n'),
        ("%s %S %K %V", b'{"a":1} 7 2 7'),
        ("%T %d %e %i", b"1700000000123 1700000000123 7 3"),
        ("%d{strftime[%Y-%m-%d %H:%M]}", b"2023-11-14 22:13"),
        ("%h", b"h1=x,h2="),
        ("%h{%k -> %v;}%H", b"h1 -> x;h2 -> ;2"),
        ("%k{hex} %k{base64} %v{json}", b'6b31 azE= "{\\"a\\":1}"'),
        ("100%% \\t\\x00\\x41\\\\", b"100% \t\0A\\"),
        ("ü", "ü".encode()),
        ("", b""),
    ],
)
def test_verbs(text: str, expected: bytes) -> None:
    assert Format(text)(RECORD, 3) == expected


def test_null_is_nothing_or_minus_one() -> None:
    assert Format("[%k][%v] %K %S %v{json} %h|%H")(NULLS) == b"[][] -1 -1 null |0"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("%q", "%q is not known; there are"),
        ("%", "is not known"),
        ("%k{hex", "closing }"),
        ("%k{octal}", "hex, base64 or json"),
        ("\\q", "there is no \\\\q"),
        ("\\x4", "two hexadecimal digits"),
        ("\\", "there is no"),
        ("%o{hex}", "is not known"),
    ],
)
def test_a_wrong_format_says_where(text: str, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        Format(text)


def test_a_line_of_json() -> None:
    assert json_line(NULLS) == (
        b'{"topic": "orders", "partition": 0, "offset": 0, "timestamp": 5, "key": null, "value": null, "headers": []}'
    )
