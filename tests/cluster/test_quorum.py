"""Voters as real processes over gRPC: whatever is done to leaders, nothing acknowledged is lost."""

from pathlib import Path

import pytest

from tests.cluster.quorum import eventually, quorum

ROUNDS = 5


@pytest.mark.row(79)
@pytest.mark.invariant("R1", "R5", "R6", "R20")
@pytest.mark.parametrize("size", [3, 5])
def test_killed_leaders_are_replaced_and_nothing_acknowledged_is_lost(tmp_path: Path, size: int) -> None:
    with quorum(tmp_path, size) as voters:
        for _ in range(ROUNDS):
            voters.propose(20)
            victim = voters.leader()
            victim.kill()
            voters.propose(5)
            victim.start()
        voters.check()


@pytest.mark.invariant("R1", "R5", "R10")
def test_a_leader_that_was_frozen_wakes_up_and_follows(tmp_path: Path) -> None:
    with quorum(tmp_path, 3) as voters:
        for _ in range(ROUNDS):
            voters.propose(10)
            frozen = voters.leader()
            frozen.pause()
            voters.propose(5)
            frozen.resume()
            follows = lambda voter=frozen: (voter.look() or {}).get("leads") is False  # noqa: E731
            eventually("the frozen leader knows that it was replaced", follows)
        voters.check()
