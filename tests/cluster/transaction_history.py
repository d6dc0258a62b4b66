"""Checks a history of transactions: what producers asked for, what consumers saw, and whether that was allowed.

    python -m tests.cluster.transaction_history HISTORY.jsonl

The input is a list of events, one JSON object per line, `{"kind": "send", "at": 12, ...}` with the fields of the
classes below. `at` is nanoseconds of the machine's monotonic clock: an event that asks for something is written
before the request, one that tells a result after the answer. A value is sent once and in one transaction only.

Whoever is not sure of an outcome writes "unknown" or nothing: then all or nothing may be visible. Only a commit that
was answered, or of which somebody has seen a part, must be visible as a whole. That something is missing is only said
of partitions that were read from one end to the other (`complete`).

Clients below transaction version 2 cannot be protected from their own late EndTxn: it may end the next transaction.
What that explains is counted apart (`late_ends`).
"""

import json
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"

LOST = "lost"
DUPLICATE = "duplicate"
ABORTED_READ = "aborted read"
EARLY_READ = "early read"
TORN = "torn"
REORDERED = "reordered"
NON_MONOTONIC = "non-monotonic read"
SKIPPED = "skipped"
INCONSISTENT = "inconsistent offset"
PHANTOM = "phantom"
OFFSET_WITHOUT_RECORD = "offset without record"
RECORD_WITHOUT_OFFSET = "record without offset"
HANGING = "hanging"
BY_A_LATE_END = {LOST, ABORTED_READ, EARLY_READ, TORN, OFFSET_WITHOUT_RECORD, RECORD_WITHOUT_OFFSET}

Source = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins. A session is one life of one producer, between two InitProducerIds."""

    at: int
    txn: str
    session: str
    version: int = 2
    """The client's transaction version."""


@dataclass(frozen=True, slots=True)
class Send:
    at: int
    txn: str
    partition: str
    value: str
    source: Source | None = None
    """The partition and offset that this is the result of."""


@dataclass(frozen=True, slots=True)
class Sent:
    at: int
    txn: str
    partition: str
    value: str
    offset: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets of a group that are to be committed with the transaction."""

    at: int
    txn: str
    group: str
    offsets: dict[str, int]


@dataclass(frozen=True, slots=True)
class End:
    at: int
    txn: str
    wish: str
    """Either "commit" or "abort"."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the wish went: "ok", "fail" (certainly not), "unknown". `resent`: the client may have sent it more than
    once, and a copy may still be under way."""

    at: int
    txn: str
    outcome: str
    resent: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """From here on the consumer may read from anywhere."""

    at: int
    consumer: str


@dataclass(frozen=True, slots=True)
class Read:
    at: int
    consumer: str
    isolation: str
    partition: str
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Complete:
    """The consumer has read everything in the partition up to its end, after all faults were over."""

    at: int
    consumer: str
    isolation: str
    partition: str


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """What a group's committed offset was at this moment, asked for with require_stable."""

    at: int
    group: str
    partition: str
    offset: int
    final: bool = False
    """Nothing was written after this."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a partition ended when no transaction was open any more."""

    at: int
    partition: str
    high_watermark: int
    last_stable: int


Event = Begin | Send | Sent | Offsets | End | Ended | Assign | Read | Complete | GroupOffset | Ends
KINDS: dict[str, Callable[..., Event]] = {
    "begin": Begin,
    "send": Send,
    "sent": Sent,
    "offsets": Offsets,
    "end": End,
    "ended": Ended,
    "assign": Assign,
    "read": Read,
    "complete": Complete,
    "group_offset": GroupOffset,
    "ends": Ends,
}
NAMES: dict[object, str] = {made: name for name, made in KINDS.items()}


def to_json(event: Event) -> str:
    return json.dumps({"kind": NAMES[type(event)], **asdict(event)})


def from_json(line: str) -> Event:
    fields: dict[str, Any] = json.loads(line)
    if fields.get("source") is not None:
        fields["source"] = tuple(fields["source"])
    return KINDS[fields.pop("kind")](**fields)


class Finding(NamedTuple):
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(slots=True)
class Report:
    findings: list[Finding] = field(default_factory=list)
    """What must never be."""
    late_ends: list[Finding] = field(default_factory=list)
    """What a late EndTxn of a client below transaction version 2 explains."""
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def kinds(self) -> set[str]:
        return {finding.kind for finding in self.findings}


@dataclass(slots=True)
class _Transaction:
    name: str
    session: str = ""
    version: int = 2
    sends: list[Send] = field(default_factory=list)
    offsets: list[Offsets] = field(default_factory=list)
    commit_at: int | None = None
    outcome: str = ""
    both_asked: bool = False
    """A commit without an answer, then an abort, whose answer does not say which was first."""
    ended_twice: bool = False
    """Perhaps: a copy of the request may be under way."""
    after_late_end: bool = False
    """Perhaps: that of the transaction before it in the same session."""

    @property
    def committed(self) -> bool:
        return self.commit_at is not None and self.outcome == "ok"

    @property
    def aborted(self) -> bool:
        """Nobody asked for a commit, or it was certainly refused."""
        return self.commit_at is None or self.outcome == "fail"


class _Checker:
    """Takes a history apart once and looks at it from all sides; linear but for sorting."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._report = Report()
        self._transactions: dict[str, _Transaction] = {}
        self._writer: dict[tuple[str, str], Send] = {}
        self._walks: list[Read | Assign] = []
        self._values: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        """By partition and offset, whoever said so."""
        self._visible: dict[str, dict[int, str]] = defaultdict(dict)
        """What read_committed consumers saw."""
        self._sent: list[Sent] = []
        self._complete: set[tuple[str, str]] = set()
        self._group_offsets: list[GroupOffset] = []
        self._ends: list[Ends] = []
        for event in sorted(events, key=lambda each: each.at):
            self._take(event)
        self._seen = {(partition, value) for partition, at in self._visible.items() for value in at.values()}
        before: dict[str, _Transaction] = {}
        for transaction in self._transactions.values():  # in the order in which they began
            earlier = before.get(transaction.session)
            transaction.after_late_end = (
                transaction.version < 2 and earlier is not None and earlier.ended_twice
            )
            before[transaction.session] = transaction

    def report(self) -> Report:
        self._check_values()
        self._check_transactions()
        self._check_order()
        self._check_consumers()
        self._check_offsets()
        self._check_sources()
        for ends in self._ends:
            if ends.last_stable < ends.high_watermark:
                self._find(
                    HANGING, f"{ends.partition} is stable up to {ends.last_stable} of {ends.high_watermark}"
                )
        counts, all_of_them = self._report.counts, self._transactions.values()
        counts["transactions"] = len(all_of_them)
        counts["committed"] = sum(each.committed for each in all_of_them)
        counts["aborted"] = sum(each.aborted for each in all_of_them)
        counts["unknown"] = counts["transactions"] - counts["committed"] - counts["aborted"]
        counts["records visible"] = len(self._seen)
        counts["reads"] = sum(isinstance(each, Read) for each in self._walks)
        counts["late ends"] = len(self._report.late_ends)
        return self._report

    # --- taking it apart ------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        match event:
            case Assign() | Read() | Complete() | GroupOffset() | Ends():
                self._take_reading(event)
            case Begin():
                begun = self._of(event.txn)
                begun.session, begun.version = event.session, event.version
            case Send():
                self._of(event.txn).sends.append(event)
                self._writer[event.partition, event.value] = event
            case Sent():
                self._sent.append(event)
                self._values[event.partition][event.offset].add(event.value)
            case Offsets():
                self._of(event.txn).offsets.append(event)
            case End():
                self._take_end(self._of(event.txn), event)
            case Ended():
                ended = self._of(event.txn)
                if ended.outcome in ("", "unknown") and not ended.both_asked:
                    ended.outcome = event.outcome
                ended.ended_twice |= event.resent or event.outcome == "unknown"

    def _take_reading(self, event: Assign | Read | Complete | GroupOffset | Ends) -> None:
        match event:
            case Assign():
                self._walks.append(event)
            case Read():
                self._walks.append(event)
                self._values[event.partition][event.offset].add(event.value)
                if event.isolation == COMMITTED:
                    self._visible[event.partition][event.offset] = event.value
            case Complete():
                self._complete.add((event.partition, event.isolation))
            case GroupOffset():
                self._group_offsets.append(event)
            case Ends():
                self._ends.append(event)

    def _of(self, name: str) -> _Transaction:
        return self._transactions.setdefault(name, _Transaction(name))

    def _take_end(self, transaction: _Transaction, event: End) -> None:
        if event.wish == "commit" and transaction.commit_at is None:
            transaction.commit_at = event.at
        elif event.wish == "abort" and transaction.commit_at is not None:
            transaction.both_asked = transaction.outcome in ("", "unknown")
            transaction.ended_twice = True

    # --- looking at it --------------------------------------------------------------------------------------

    def _find(self, kind: str, text: str, transaction: _Transaction | None = None) -> None:
        late = transaction is not None and transaction.after_late_end and kind in BY_A_LATE_END
        (self._report.late_ends if late else self._report.findings).append(Finding(kind, text))

    def _check_values(self) -> None:
        """One value at an offset, one offset for a value, and nothing that nobody sent."""
        for partition, at in self._values.items():
            where: dict[str, list[int]] = defaultdict(list)
            for offset, values in sorted(at.items()):
                if len(values) > 1:
                    self._find(INCONSISTENT, f"{partition} has {sorted(values)} at {offset}")
                for value in values:
                    where[value].append(offset)
            for value, offsets in where.items():
                if len(offsets) > 1:
                    self._find(DUPLICATE, f"{value} is stored in {partition} at {offsets}")
                if (partition, value) not in self._writer:
                    self._find(PHANTOM, f"nobody sent {value}, which was read in {partition} at {offsets}")

    def _check_transactions(self) -> None:
        """All of it or nothing; nothing at all if it was aborted."""
        for transaction in self._transactions.values():
            seen = [send for send in transaction.sends if (send.partition, send.value) in self._seen]
            missing = [
                send
                for send in transaction.sends
                if (send.partition, send.value) not in self._seen
                and (send.partition, COMMITTED) in self._complete
            ]
            name = f"{transaction.name} of {transaction.session}"
            if transaction.aborted:
                for send in seen:
                    self._find(ABORTED_READ, f"{send.value} in {send.partition} of {name}", transaction)
            elif seen and missing:
                values = [send.value for send in missing]
                self._find(
                    TORN, f"of {name} {[send.value for send in seen]} is visible, not {values}", transaction
                )
            elif transaction.committed:
                for send in missing:
                    self._find(LOST, f"{send.value} in {send.partition} of {name}", transaction)
        stored = {
            (partition, value)
            for partition, at in self._values.items()
            for values in at.values()
            for value in values
        }
        read = {(each.partition, each.offset) for each in self._walks if isinstance(each, Read)}
        for sent in self._sent:
            if (sent.partition, UNCOMMITTED) in self._complete and (sent.partition, sent.offset) not in read:
                self._find(
                    LOST,
                    f"{sent.value}, acknowledged in {sent.partition} at {sent.offset}, is not in the log",
                )
        self._report.counts["records stored"] = len(stored)

    def _check_order(self) -> None:
        """The records of one session are in a partition in the order in which they were sent."""
        for partition, at in self._values.items():
            newest: dict[str, Send] = {}
            for _, values in sorted(at.items()):
                for value in values:
                    send = self._writer.get((partition, value))
                    if send is None:
                        continue
                    session = self._transactions[send.txn].session
                    earlier = newest.get(session)
                    if earlier is not None and earlier.at > send.at:
                        self._find(
                            REORDERED, f"{value} of {session} is behind {earlier.value} in {partition}"
                        )
                    newest[session] = send

    def _check_consumers(self) -> None:
        """A consumer goes forward, over nothing that is visible, and sees nothing before its commit was asked for."""
        known = {
            COMMITTED: {partition: sorted(at) for partition, at in self._visible.items()},
            UNCOMMITTED: {partition: sorted(at) for partition, at in self._values.items()},
        }
        positions: dict[tuple[str, str], int] = {}
        for event in self._walks:
            if isinstance(event, Assign):
                positions = {place: at for place, at in positions.items() if place[0] != event.consumer}
                continue
            place = (event.consumer, event.partition)
            before = positions.get(place)
            if before is not None and event.offset <= before:
                self._find(
                    NON_MONOTONIC, f"{event.consumer} read {event.offset} of {event.partition} after {before}"
                )
            elif before is not None:
                offsets = known[event.isolation][event.partition]
                if offsets[bisect_right(offsets, before)] < event.offset:
                    over = f"from {before} to {event.offset} over {offsets[bisect_right(offsets, before)]}"
                    self._find(SKIPPED, f"{event.consumer} went in {event.partition} {over}")
            positions[place] = event.offset
            self._check_early(event)

    def _check_early(self, read: Read) -> None:
        send = self._writer.get((read.partition, read.value))
        if read.isolation == COMMITTED and send is not None:
            transaction = self._transactions[send.txn]
            if transaction.commit_at is not None and read.at < transaction.commit_at:
                self._find(
                    EARLY_READ, f"{read.value} before {transaction.name} was to be committed", transaction
                )

    def _check_offsets(self) -> None:
        """Offsets of groups only become visible with a commit, with its records, and do not go back."""
        asked: dict[tuple[str, str, int], list[_Transaction]] = defaultdict(list)
        for transaction in self._transactions.values():
            for each in transaction.offsets:
                for partition, offset in each.offsets.items():
                    asked[each.group, partition, offset].append(transaction)
        newest: dict[tuple[str, str], int] = {}
        for seen in self._group_offsets:
            of = f"the offset {seen.offset} of {seen.group} in {seen.partition}"
            before = newest.get((seen.group, seen.partition), -1)
            if seen.offset < before:
                self._find(NON_MONOTONIC, f"{of} after {before}")
            newest[seen.group, seen.partition] = max(before, seen.offset)
            writers = asked.get((seen.group, seen.partition, seen.offset), [])
            if seen.offset > 0 and not writers:
                self._find(PHANTOM, f"{of} was committed by nobody")
            elif writers and all(each.aborted for each in writers):
                self._find(ABORTED_READ, f"{of} of {writers[-1].name}", writers[-1])
            elif writers and all(each.commit_at is None or seen.at < each.commit_at for each in writers):
                self._find(EARLY_READ, f"{of} before {writers[-1].name} was to be committed", writers[-1])
            elif len(writers) == 1:
                self._check_records_of(writers[0], of)
        self._check_final_offsets(asked)

    def _check_records_of(self, transaction: _Transaction, offset: str) -> None:
        for send in transaction.sends:
            if (send.partition, send.value) not in self._seen and (
                send.partition,
                COMMITTED,
            ) in self._complete:
                text = f"{offset} is visible, {send.value} of {transaction.name} in {send.partition} is not"
                self._find(OFFSET_WITHOUT_RECORD, text, transaction)

    def _check_final_offsets(self, asked: dict[tuple[str, str, int], list[_Transaction]]) -> None:
        final = {(each.group, each.partition): each.offset for each in self._group_offsets if each.final}
        for (group, partition, offset), transactions in asked.items():
            end = final.get((group, partition))
            for transaction in transactions:
                visible = any((send.partition, send.value) in self._seen for send in transaction.sends)
                if (
                    end is not None
                    and end < offset
                    and (transaction.committed or (visible and not transaction.aborted))
                ):
                    text = (
                        f"{transaction.name} committed {offset} of {group} in {partition}, which is at {end}"
                    )
                    self._find(RECORD_WITHOUT_OFFSET, text, transaction)

    def _check_sources(self) -> None:
        """Each record of the input has one result, as far as the group says that it was read."""
        results: dict[Source, list[Send]] = defaultdict(list)
        for partition, value in sorted(self._seen):
            send = self._writer.get((partition, value))
            if send is not None and send.source is not None:
                results[send.source].append(send)
        for (partition, offset), sends in results.items():
            if len(sends) > 1:
                values = [f"{send.value} of {send.txn}" for send in sends]
                self._find(DUPLICATE, f"{partition} at {offset} was processed twice: {values}")
        self._report.counts["processed"] = len(results)
        read_by = {source[0] for source in results}
        for each in self._group_offsets:
            if each.final and each.partition in read_by:
                for offset in sorted(self._visible[each.partition]):
                    if offset < each.offset and (each.partition, offset) not in results:
                        text = f"{each.group} is at {each.offset} in {each.partition}; {offset} has no result"
                        self._find(OFFSET_WITHOUT_RECORD, text)


def check(events: Iterable[Event]) -> Report:
    """Everything that was not allowed."""
    return _Checker(events).report()


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m tests.cluster.transaction_history HISTORY.jsonl", file=sys.stderr)
        return 2
    with Path(sys.argv[1]).open() as lines:
        report = check([from_json(line) for line in lines if line.strip()])
    for finding in report.findings:
        print(finding)
    for finding in report.late_ends:
        print(f"not counted, since transaction version 1 cannot refuse a late EndTxn: {finding}")
    print(", ".join(f"{count} {name}" for name, count in report.counts.items()))
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
