"""The checker of transactions finds each anomaly, and only where there is one."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.transaction_history import (
    ABORTED_READ,
    COMMITTED,
    DUPLICATE,
    EARLY_READ,
    HANGING,
    INCONSISTENT,
    LOST,
    NON_MONOTONIC,
    OFFSET_WITHOUT_RECORD,
    PHANTOM,
    RECORD_WITHOUT_OFFSET,
    REORDERED,
    SKIPPED,
    TORN,
    UNCOMMITTED,
    Assign,
    Begin,
    Complete,
    End,
    Ended,
    Ends,
    Event,
    GroupOffset,
    Offsets,
    Read,
    Report,
    Send,
    Sent,
    check,
    from_json,
    main,
    to_json,
)

A, B, IN = "out-0", "out-1", "in-0"


class Scene:
    """Writes a history, one event after the other."""

    def __init__(self, version: int = 2) -> None:
        self.events: list[Event] = []
        self._version = version
        self._ends = {A: 0, B: 0}

    @property
    def now(self) -> int:
        return len(self.events)

    def add(self, event: Event) -> None:
        self.events.append(event)

    def begin(self, txn: str, session: str = "p1") -> None:
        self.add(Begin(self.now, txn, session, self._version))

    def send(self, txn: str, partition: str, value: str, source: tuple[str, int] | None = None) -> None:
        """Sent and acknowledged at the next offset."""
        self.add(Send(self.now, txn, partition, value, source))
        self.add(Sent(self.now, txn, partition, value, self._ends[partition]))
        self._ends[partition] += 1

    def end(self, txn: str, wish: str = "commit", outcome: str = "ok", *, resent: bool = False) -> None:
        self.add(End(self.now, txn, wish))
        if outcome:
            self.add(Ended(self.now, txn, outcome, resent))
        for partition in self._ends:
            self._ends[partition] += 1  # the marker

    def read(
        self, partition: str, offset: int, value: str, consumer: str = "c", isolation: str = COMMITTED
    ) -> None:
        self.add(Read(self.now, consumer, isolation, partition, offset, value))

    def complete(self, isolation: str = COMMITTED, *partitions: str) -> None:
        for partition in partitions or (A, B):
            self.add(Complete(self.now, "last", isolation, partition))

    def read_all(self, *values: str) -> None:
        """A last reader finds these values, and no others, where they were stored."""
        where = {each.value: each for each in self.events if isinstance(each, Sent)}
        for sent in sorted((where[value] for value in values), key=lambda each: each.offset):
            self.read(sent.partition, sent.offset, sent.value, "last")
        self.complete()

    def report(self) -> Report:
        return check(self.events)


def two_transactions(version: int = 2) -> Scene:
    """One of two partitions, committed, and one that is not ended yet."""
    scene = Scene(version)
    scene.begin("t1")
    scene.send("t1", A, "a1")
    scene.send("t1", B, "b1")
    scene.end("t1", resent=version < 2)
    scene.begin("t2")
    scene.send("t2", A, "a2")
    scene.send("t2", B, "b2")
    return scene


# --- what must not be reported ------------------------------------------------------------------------------


def test_a_clean_history_has_no_finding() -> None:
    scene = two_transactions()
    scene.end("t2", "abort")
    scene.read_all("a1", "b1")
    scene.add(Ends(scene.now, A, 4, 4))
    report = scene.report()
    assert report.findings == []
    assert report.counts["committed"] == report.counts["aborted"] == 1
    assert report.counts["records visible"] == 2


@pytest.mark.parametrize("visible", [(), ("a2", "b2")])
@pytest.mark.parametrize("outcome", ["unknown", ""])
def test_an_unknown_commit_may_be_visible_or_not(outcome: str, visible: tuple[str, ...]) -> None:
    scene = two_transactions()
    scene.end("t2", "commit", outcome)
    scene.read_all("a1", "b1", *visible)
    assert scene.report().findings == []


@pytest.mark.parametrize("visible", [(), ("a2", "b2")])
def test_a_commit_without_an_answer_and_then_an_abort_may_be_either(visible: tuple[str, ...]) -> None:
    scene = two_transactions()
    scene.end("t2", "commit", "unknown")
    scene.end("t2", "abort", "ok")
    scene.read_all("a1", "b1", *visible)
    assert scene.report().findings == []


def test_what_nobody_was_able_to_read_is_not_lost() -> None:
    """Nobody has read the partitions to their ends."""
    scene = two_transactions()
    scene.end("t2")
    scene.read(A, 0, "a1")
    assert scene.report().findings == []


def test_partitions_become_visible_one_after_the_other() -> None:
    """A reader that has one partition's part already is not torn; the markers are written one after the other."""
    scene = two_transactions()
    scene.end("t2")
    scene.read(A, 0, "a1")
    scene.read(A, 2, "a2")
    scene.read_all("a1", "a2", "b1", "b2")
    assert scene.report().findings == []


def test_transactions_of_two_producers_may_interleave() -> None:
    scene = Scene()
    scene.begin("t1", "p1")
    scene.begin("t2", "p2")
    for value in ("1", "3"):
        scene.send("t1", A, f"p1-{value}")
        scene.send("t2", A, f"p2-{value}")
    scene.end("t2")
    scene.end("t1")
    scene.read_all("p1-1", "p2-1", "p1-3", "p2-3")
    assert scene.report().findings == []


def test_a_consumer_that_is_assigned_anew_may_go_back() -> None:
    scene = two_transactions()
    scene.end("t2")
    scene.read(A, 2, "a2")
    scene.add(Assign(scene.now, "c"))
    scene.read(A, 0, "a1")
    assert scene.report().findings == []


def test_read_uncommitted_sees_open_and_aborted_records() -> None:
    scene = two_transactions()
    scene.read(A, 2, "a2", "dirty", UNCOMMITTED)
    scene.end("t2", "abort")
    scene.read(B, 2, "b2", "dirty", UNCOMMITTED)
    scene.read_all("a1", "b1")
    assert scene.report().findings == []


def test_a_second_commit_settles_an_unknown_one() -> None:
    scene = two_transactions()
    scene.end("t2", "commit", "unknown")
    scene.end("t2", "commit", "ok")
    scene.read_all("a1", "b1")
    assert scene.report().kinds == {LOST}


# --- anomalies of records -----------------------------------------------------------------------------------


def lost(scene: Scene) -> None:
    scene.end("t2")
    scene.read_all("a1", "b1")


def lost_from_the_log(scene: Scene) -> None:
    """Acknowledged, aborted, and yet it has to be there for read_uncommitted."""
    scene.end("t2", "abort")
    for offset, value in ((0, "a1"), (2, "other")):
        scene.read(A, offset, value, "dirty", UNCOMMITTED)
    scene.events = [each for each in scene.events if not (isinstance(each, Read) and each.value == "other")]
    scene.complete(UNCOMMITTED, A)


def torn(scene: Scene) -> None:
    scene.end("t2")
    scene.read_all("a1", "b1", "a2")


def torn_though_unknown(scene: Scene) -> None:
    scene.end("t2", "commit", "unknown")
    scene.read_all("a1", "b1", "b2")


def aborted_read(scene: Scene) -> None:
    scene.end("t2", "abort")
    scene.read_all("a1", "b1", "a2", "b2")


def refused_and_read(scene: Scene) -> None:
    """The commit was refused for certain."""
    scene.end("t2", "commit", "fail")
    scene.read_all("a1", "b1", "a2", "b2")


def never_ended_and_read(scene: Scene) -> None:
    """The producer died before it asked for a commit."""
    scene.read_all("a1", "b1", "b2")


def early_read(scene: Scene) -> None:
    scene.read(A, 2, "a2")
    scene.end("t2")
    scene.read_all("a1", "b1", "a2", "b2")


def stored_twice(scene: Scene) -> None:
    scene.end("t2")
    scene.read_all("a1", "b1", "a2", "b2")
    scene.read(A, 9, "a1", "last")


def phantom(scene: Scene) -> None:
    scene.read(A, 9, "from nowhere")


def inconsistent(scene: Scene) -> None:
    scene.end("t2")
    scene.read(A, 0, "a2")


def reordered(scene: Scene) -> None:
    scene.add(Send(scene.now, "t2", A, "first"))
    scene.add(Send(scene.now, "t2", A, "second"))
    scene.add(Sent(scene.now, "t2", A, "second", 3))
    scene.add(Sent(scene.now, "t2", A, "first", 4))


def reordered_transactions(scene: Scene) -> None:
    """A record of the next transaction of the same producer is before one of the last."""
    scene.add(Send(scene.now, "t2", A, "late"))
    scene.end("t2")
    scene.begin("t3")
    scene.add(Send(scene.now, "t3", A, "a3"))
    scene.add(Sent(scene.now, "t3", A, "a3", 5))
    scene.add(Sent(scene.now, "t2", A, "late", 6))


def went_back(scene: Scene) -> None:
    scene.end("t2")
    scene.read(A, 2, "a2")
    scene.read(A, 0, "a1")


def read_again(scene: Scene) -> None:
    scene.read(A, 0, "a1")
    scene.read(A, 0, "a1")


def skipped(scene: Scene) -> None:
    """As a reader does whose last stable offset passed an undecided transaction that was committed later."""
    scene.end("t2")
    scene.begin("t3")
    scene.send("t3", A, "a3")
    scene.end("t3")
    scene.read(A, 0, "a1")
    scene.read(A, 4, "a3")
    scene.read_all("a1", "b1", "a2", "b2", "a3")


def hanging(scene: Scene) -> None:
    scene.add(Ends(scene.now, A, 9, 2))


@pytest.mark.parametrize(
    ("happens", "kind"),
    [
        (lost, LOST),
        (lost_from_the_log, LOST),
        (torn, TORN),
        (torn_though_unknown, TORN),
        (aborted_read, ABORTED_READ),
        (refused_and_read, ABORTED_READ),
        (never_ended_and_read, ABORTED_READ),
        (early_read, EARLY_READ),
        (stored_twice, DUPLICATE),
        (phantom, PHANTOM),
        (inconsistent, INCONSISTENT),
        (reordered, REORDERED),
        (reordered_transactions, REORDERED),
        (went_back, NON_MONOTONIC),
        (read_again, NON_MONOTONIC),
        (skipped, SKIPPED),
        (hanging, HANGING),
    ],
)
def test_each_anomaly_of_records_is_found(happens: Callable[[Scene], None], kind: str) -> None:
    scene = two_transactions()
    happens(scene)
    assert kind in scene.report().kinds


# --- offsets of groups, KIP-447 -----------------------------------------------------------------------------


def processing() -> Scene:
    """Two records of the input, one transaction each; the second is not ended yet."""
    scene = Scene()
    scene.begin("in", "feeder")
    for offset in (0, 1):
        scene.add(Send(scene.now, "in", IN, f"i{offset}"))
        scene.add(Sent(scene.now, "in", IN, f"i{offset}", offset))
    scene.add(End(scene.now, "in", "commit"))
    scene.add(Ended(scene.now, "in", "ok"))
    scene.begin("t1")
    scene.send("t1", A, "o0", (IN, 0))
    scene.add(Offsets(scene.now, "t1", "g", {IN: 1}))
    scene.end("t1")
    scene.begin("t2")
    scene.send("t2", A, "o1", (IN, 1))
    scene.add(Offsets(scene.now, "t2", "g", {IN: 2}))
    return scene


def finish(scene: Scene, offset: int, *values: str) -> None:
    for place in (0, 1):
        scene.read(IN, place, f"i{place}", "last")
    scene.complete(COMMITTED, IN)
    scene.read_all(*values)
    scene.add(GroupOffset(scene.now, "g", IN, offset, final=True))


@pytest.mark.parametrize(("offset", "values"), [(1, ["o0"]), (2, ["o0", "o1"])])
def test_records_and_offsets_of_an_unknown_commit_come_together(offset: int, values: list[str]) -> None:
    scene = processing()
    scene.add(GroupOffset(scene.now, "g", IN, 1))
    scene.end("t2", "commit", "unknown")
    finish(scene, offset, *values)
    assert scene.report().findings == []
    assert scene.report().counts["processed"] == len(values)


def test_an_offset_without_its_records() -> None:
    scene = processing()
    scene.end("t2", "commit", "unknown")
    finish(scene, 2, "o0")
    assert scene.report().kinds == {OFFSET_WITHOUT_RECORD}


def test_records_without_their_offset() -> None:
    scene = processing()
    scene.end("t2", "commit", "unknown")
    finish(scene, 1, "o0", "o1")
    assert scene.report().kinds == {RECORD_WITHOUT_OFFSET}


def test_a_committed_offset_is_lost() -> None:
    scene = processing()
    scene.end("t2")
    finish(scene, 1, "o0", "o1")
    assert scene.report().kinds == {RECORD_WITHOUT_OFFSET}


def test_an_offset_of_an_aborted_transaction() -> None:
    scene = processing()
    scene.end("t2", "abort")
    scene.add(GroupOffset(scene.now, "g", IN, 2))
    finish(scene, 2, "o0")
    assert ABORTED_READ in scene.report().kinds


def test_an_offset_before_its_commit() -> None:
    scene = processing()
    scene.add(GroupOffset(scene.now, "g", IN, 2))
    scene.end("t2")
    finish(scene, 2, "o0", "o1")
    assert scene.report().kinds == {EARLY_READ}


def test_an_offset_that_goes_back() -> None:
    scene = processing()
    scene.end("t2")
    scene.add(GroupOffset(scene.now, "g", IN, 2))
    scene.add(GroupOffset(scene.now, "g", IN, 1))
    assert scene.report().kinds == {NON_MONOTONIC}


def test_an_offset_of_nobody() -> None:
    scene = processing()
    scene.add(GroupOffset(scene.now, "g", IN, 17))
    assert scene.report().kinds == {PHANTOM}


def test_an_input_processed_twice() -> None:
    """A zombie and its successor both committed the result of the same record."""
    scene = processing()
    scene.end("t2")
    scene.begin("t3", "p2")
    scene.send("t3", B, "again", (IN, 1))
    scene.add(Offsets(scene.now, "t3", "g", {IN: 2}))
    scene.end("t3")
    finish(scene, 2, "o0", "o1", "again")
    assert scene.report().kinds == {DUPLICATE}


def test_an_input_that_was_passed_over() -> None:
    scene = processing()
    scene.end("t2")
    scene.events = [replace(each, source=None) if isinstance(each, Send) and each.value == "o0" else each
                    for each in scene.events]  # fmt: skip
    finish(scene, 2, "o0", "o1")
    assert scene.report().kinds == {OFFSET_WITHOUT_RECORD}


# --- the late EndTxn of transaction version 1 ---------------------------------------------------------------


@pytest.mark.parametrize("happens", [torn, aborted_read])
def test_what_a_late_end_explains_is_counted_apart(happens: Callable[[Scene], None]) -> None:
    scene = two_transactions(version=1)
    happens(scene)
    report = scene.report()
    assert report.findings == []
    assert report.late_ends
    assert report.counts["late ends"] == len(report.late_ends)


def test_with_version_2_a_late_end_is_a_violation() -> None:
    scene = two_transactions(version=2)
    scene.events = [replace(each, resent=True) if isinstance(each, Ended) else each for each in scene.events]
    aborted_read(scene)
    assert scene.report().kinds == {ABORTED_READ}


def test_version_1_is_excused_only_after_an_end_that_was_sent_twice() -> None:
    scene = two_transactions(version=1)
    scene.events = [replace(each, resent=False) if isinstance(each, Ended) else each for each in scene.events]
    aborted_read(scene)
    assert scene.report().kinds == {ABORTED_READ}


def test_version_1_is_excused_only_within_a_session() -> None:
    """A new session has a new epoch, which refuses what is late."""
    scene = two_transactions(version=1)
    scene.events = [replace(each, session="p2") if isinstance(each, Begin) and each.txn == "t2" else each
                    for each in scene.events]  # fmt: skip
    aborted_read(scene)
    assert scene.report().kinds == {ABORTED_READ}


def test_a_late_end_explains_no_duplicate() -> None:
    scene = two_transactions(version=1)
    stored_twice(scene)
    assert DUPLICATE in scene.report().kinds


# --- the command --------------------------------------------------------------------------------------------


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = processing()
    scene.end("t2", "abort")
    finish(scene, 1, "o0", "o1")
    file = tmp_path / "history.jsonl"
    file.write_text("".join(f"{to_json(event)}\n" for event in scene.events))
    assert [from_json(line) for line in file.read_text().splitlines()] == scene.events
    assert json.loads(file.read_text().splitlines()[0])["kind"] == "begin"
    monkeypatch.setattr(sys, "argv", ["check", str(file)])
    assert main() == 1
    assert "aborted read: o1 in out-0 of t2" in capsys.readouterr().out
    file.write_text("")
    assert main() == 0
