r"""Formats for printing records, with the percent verbs of kcat and rpk.

| verb | prints |
|---|---|
| `%t` `%p` `%o` | topic, partition, offset |
| `%k` `%v` (or `%s`) | key, value; nothing for null |
| `%K` `%V` (or `%S`) | their sizes in bytes; -1 for null |
| `%h` | headers as `name=value,name=value`; `%h{%k: %v\n}` prints each by a format of its own |
| `%H` | how many headers there are |
| `%T` or `%d` | the time in milliseconds; `%d{strftime[%Y-%m-%d]}` by the format of strftime, in UTC |
| `%e` `%i` | leader epoch; number of the record in the output, from 1 |
| `%%` | a percent sign |

After a verb `{hex}`, `{base64}` or `{json}` says how text is written. `\n`, `\t`, `\r`, `\0`, `\\` and `\xNN` are the
bytes they stand for everywhere else.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rookery.client.types import Record

AnyRecord = Record[bytes | None, bytes | None]
Part = Callable[[AnyRecord, int], bytes]
"""Writes one part of the output for a record and its number."""
ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
NUMBERS: dict[str, Callable[[AnyRecord, int], int]] = {
    "p": lambda record, _: record.partition,
    "o": lambda record, _: record.offset,
    "K": lambda record, _: -1 if record.key is None else len(record.key),
    "V": lambda record, _: -1 if record.value is None else len(record.value),
    "S": lambda record, _: -1 if record.value is None else len(record.value),
    "H": lambda record, _: len(record.headers),
    "T": lambda record, _: record.timestamp,
    "d": lambda record, _: record.timestamp,
    "e": lambda record, _: record.leader_epoch,
    "i": lambda _, number: number,
}
TEXTS: dict[str, Callable[[AnyRecord], bytes | None]] = {
    "t": lambda record: record.topic.encode(),
    "k": lambda record: record.key,
    "v": lambda record: record.value,
    "s": lambda record: record.value,
}


def _json(data: bytes | None) -> bytes:
    return json.dumps(None if data is None else data.decode(errors="replace"), ensure_ascii=False).encode()


WAYS: dict[str, Callable[[bytes | None], bytes]] = {
    "": lambda data: data or b"",
    "hex": lambda data: (data or b"").hex().encode(),
    "base64": lambda data: b64encode(data or b""),
    "json": _json,
}


class FormatError(ValueError):
    """The format cannot be understood; says where."""


class Format:
    """A format that was read once, to print many records."""

    def __init__(self, text: str) -> None:
        self._parts = _Reading(text).parts()

    def __call__(self, record: AnyRecord, number: int = 0) -> bytes:
        return b"".join([part(record, number) for part in self._parts])


class _Reading:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parts(self) -> list[Part]:
        found: list[Part] = []
        plain = bytearray()
        while self._at < len(self._text):
            sign = self._text[self._at]
            if sign == "%":
                self._at += 1
                if self._text[self._at : self._at + 1] == "%":
                    plain += b"%"
                    self._at += 1
                    continue
                if plain:
                    found.append(_always(bytes(plain)))
                    plain = bytearray()
                found.append(self._verb())
            elif sign == "\\":
                plain += self._escape()
            else:
                plain += sign.encode()
                self._at += 1
        if plain:
            found.append(_always(bytes(plain)))
        return found

    def _escape(self) -> bytes:
        sign = self._text[self._at + 1 : self._at + 2]
        if sign == "x":
            digits = self._text[self._at + 2 : self._at + 4]
            try:
                byte = bytes.fromhex(digits)
            except ValueError:
                byte = b""
            if not byte:
                raise self._error(f"two hexadecimal digits are needed after \\x, not {digits!r}")
            self._at += 4
            return byte
        if sign not in ESCAPES or not sign:
            raise self._error(f"there is no \\{sign}; there are \\n \\t \\r \\0 \\\\ \\xNN")
        self._at += 2
        return ESCAPES[sign]

    def _verb(self) -> Part:
        verb = self._text[self._at : self._at + 1]
        self._at += 1
        inside = self._braces()
        if verb == "h":
            return _headers(Format(inside)) if inside else _plain_headers
        if verb == "d" and inside.startswith("strftime[") and inside.endswith("]"):
            return _time(inside[len("strftime[") : -1])
        if verb in NUMBERS and not inside:
            return _number(NUMBERS[verb])
        if verb in TEXTS:
            if inside not in WAYS:
                raise self._error(f"%{verb}{{{inside}}}: hex, base64 or json is needed")
            return _text(TEXTS[verb], WAYS[inside])
        known = " ".join(f"%{each}" for each in sorted({*NUMBERS, *TEXTS, "h", "%"}))
        raise self._error(f"%{verb}{f'{{{inside}}}' if inside else ''} is not known; there are {known}")

    def _braces(self) -> str:
        """What stands in the braces after a verb; they may be nested."""
        if self._text[self._at : self._at + 1] != "{":
            return ""
        depth = 0
        for end in range(self._at, len(self._text)):
            depth += {"{": 1, "}": -1}.get(self._text[end], 0)
            if depth == 0:
                inside = self._text[self._at + 1 : end]
                self._at = end + 1
                return inside
        raise self._error("a closing } is missing")

    def _error(self, why: str) -> FormatError:
        return FormatError(f"format {self._text!r}, near character {self._at}: {why}")


def _always(data: bytes) -> Part:
    return lambda _record, _number: data


def _number(of: Callable[[AnyRecord, int], int]) -> Part:
    return lambda record, number: b"%d" % of(record, number)


def _text(of: Callable[[AnyRecord], bytes | None], way: Callable[[bytes | None], bytes]) -> Part:
    return lambda record, _: way(of(record))


def _time(layout: str) -> Part:
    return lambda record, _: datetime.fromtimestamp(record.timestamp / 1000, UTC).strftime(layout).encode()


def _plain_headers(record: AnyRecord, _: int) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


def _headers(each: Format) -> Part:
    def write(record: AnyRecord, number: int) -> bytes:
        return b"".join(
            each(record._replace(key=name.encode(), value=value), number) for name, value in record.headers
        )

    return write


def row_of(record: AnyRecord) -> dict[str, Any]:
    """The record in values of JSON."""

    def text(data: bytes | None) -> str | None:
        return None if data is None else data.decode(errors="replace")

    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[name, text(value)] for name, value in record.headers],
    }


def json_line(record: AnyRecord) -> bytes:
    """The record as one line of JSON."""
    return json.dumps(row_of(record), ensure_ascii=False).encode()
