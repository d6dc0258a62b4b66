"""What holds for every role: the output, restarts, snapshots of its own, and purity."""

import ast
from pathlib import Path

import pytest

from rookery.controller.raft import core
from rookery.controller.raft.core import LogSummary
from rookery.controller.raft.errors import CorruptStateError
from rookery.controller.raft.messages import SnapshotId
from rookery.controller.raft.ready import NOTHING, QuorumState
from rookery.controller.raft.settings import RaftConfig
from tests.unit.controller.raft.one import One, answer, data, key, opening, voter_set

PURE = """core describe election errors following leading log membership messages progress ready
replica roles settings voters"""
ALLOWED = {"bisect", "collections", "dataclasses", "enum", "math", "typing", "uuid", "rookery"}


def test_without_news_nothing_is_to_be_done() -> None:
    one = One()
    one.timeout()
    assert one.core.tick(one.now_ms) is NOTHING


def test_the_core_is_pure() -> None:
    folder = Path(core.__file__).parent
    for name in PURE.split():
        tree = ast.parse((folder / f"{name}.py").read_text())
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {module.split(".")[0] for module in modules} <= ALLOWED, name


def test_a_forgotten_epoch_refuses_to_start() -> None:
    with pytest.raises(CorruptStateError, match="quorum-state says epoch 1, but the log has records of epoch 2"):
        One(log=LogSummary(end_offset=1, epochs=((2, 0),)), state=QuorumState(1))


@pytest.mark.invariant("R15")
def test_snapshots_hold_only_what_is_committed() -> None:
    one = One()
    one.step(answer(one.follow(), batches=(opening(0, 1), data(1, 1), data(2, 1)), high_watermark=2))
    for wrong in (SnapshotId(3, 1), SnapshotId(2, 7)):
        with pytest.raises(CorruptStateError, match="not within the committed log"):
            one.core.snapshot_written(wrong, 0, one.now_ms)
    with pytest.raises(CorruptStateError, match="log start 3"):
        one.core.snapshot_written(SnapshotId(2, 1), 3, one.now_ms)
    one.core.snapshot_written(SnapshotId(2, 1), 2, one.now_ms)
    described = one.core.describe(one.now_ms)
    assert (described.log_start_offset, described.log_end_offset) == (2, 3)


def test_a_snapshot_nobody_asked_for_is_refused() -> None:
    with pytest.raises(CorruptStateError, match="was asked for"):
        One().core.snapshot_installed(SnapshotId(2, 1), voter_set(1), 0.0)


def test_a_restart_continues_from_disk() -> None:
    log = LogSummary(2, 5, 1, voter_set(1, 2, 3), ((1, 2), (2, 4)), ((3, voter_set(1, 2)),), SnapshotId(2, 1))
    one = One(log=log, state=QuorumState(3, key(2)))
    assert (one.epoch, one.high_watermark, one.core.voters) == (3, 2, voter_set(1, 2))
    assert one.core.voters_at(3) == voter_set(1, 2, 3)
    assert one.core.voters_at(4) == voter_set(1, 2)


@pytest.mark.parametrize("wrong", [{"fetch_timeout_ms": 0}, {"fetch_max_wait_ms": 2000}], ids=str)
def test_timings_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        RaftConfig(**wrong)
