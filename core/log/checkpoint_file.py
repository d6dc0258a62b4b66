"""Kafka's CheckpointFile, version 0: a version line, a count line, then one entry a line.

The files carry no checksum; they are replaced whole, so anything that does not parse is damage and never a
torn write.
"""

from collections.abc import Iterable

VERSION = "0"


class CheckpointDamaged(Exception):
    """A checkpoint file that does not parse: the disk changed it, or a person did."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"checkpoint {path} cannot be read: {why}")
        self.path = path


def encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in (VERSION, str(len(entries)), *entries)).encode()


def decode(path: str, content: bytes, fields: int) -> list[list[str]]:
    """The entries, each split into exactly `fields` parts."""
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise CheckpointDamaged(path, "it is not text") from None
    if len(lines) < 2 or lines[0] != VERSION:
        raise CheckpointDamaged(path, f"it does not start with version {VERSION} and a count")
    if lines[1] != str(len(lines) - 2):
        raise CheckpointDamaged(path, f"it announces {lines[1]!r} entries and has {len(lines) - 2}")
    entries = [line.split() for line in lines[2:]]
    for number, parts in enumerate(entries, start=3):
        if len(parts) != fields:
            raise CheckpointDamaged(path, f"line {number} has {len(parts)} fields instead of {fields}")
    return entries


def number(path: str, text: str) -> int:
    """A non-negative decimal number of at most 64 bits."""
    if not (text.isascii() and text.isdigit()) or int(text) >= 1 << 63:
        raise CheckpointDamaged(path, f"{text!r} is not an offset, epoch or partition")
    return int(text)
