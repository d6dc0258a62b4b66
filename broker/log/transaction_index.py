"""The `.txnindex` file of a segment: the transactions that were aborted there. Pure.

Entries, version 0: int16 version, then four int64: producer id, first offset of the transaction, last
offset (of its abort marker) and the last stable offset when the marker was written. An entry stands in the
index of the segment that holds the marker, so last offsets ascend within a file and from file to file.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

VERSION = 0

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_last_offset = attrgetter("last_offset")


class TransactionIndexCorruptError(ValueError):
    """The index cannot be believed; it is built again from the segment."""


class AbortedTxn(NamedTuple):
    """One aborted transaction: a reader drops this producer's records from `first_offset` to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode(entries: Iterable[AbortedTxn]) -> bytes:
    return b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)


def decode(data: bytes, base_offset: int) -> list[AbortedTxn]:
    """The entries of a file; raises when it is torn, of another version or out of order."""
    if len(data) % ENTRY_BYTES:
        raise TransactionIndexCorruptError(f"{len(data)} bytes are no whole number of entries")
    entries: list[AbortedTxn] = []
    previous = base_offset - 1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTxn(*fields)
        if version != VERSION:
            raise TransactionIndexCorruptError(f"entry version {version} is unknown, expected {VERSION}")
        if entry.last_offset <= previous or entry.first_offset > entry.last_offset:
            raise TransactionIndexCorruptError(
                f"{entry} does not follow a transaction that ended at {previous}"
            )
        previous = entry.last_offset
        entries.append(entry)
    return entries


def collect(indexes: Iterable[Sequence[AbortedTxn]], start: int, end: int) -> list[AbortedTxn]:
    """The aborted transactions with records in [start, end), from the indexes of the segments from `start`
    on.

    A transaction may end segments later than its records: the search goes on until an entry was written
    when the last stable offset had passed `end`, from where on no transaction can reach back before `end`.
    """
    found: list[AbortedTxn] = []
    for index in indexes:
        for at in range(bisect_left(index, start, key=_last_offset), len(index)):
            entry = index[at]
            if entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return found
    return found
