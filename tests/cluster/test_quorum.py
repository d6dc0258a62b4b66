"""Voters as real processes over gRPC: whatever is done to leaders, nothing acknowledged is lost."""

from pathlib import Path

import pytest

from tests.cluster.quorum import eventually, quorum

pytestmark = pytest.mark.alone

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


@pytest.mark.invariant("R2", "R5", "R8")
def test_everybody_killed_at_once_comes_back_with_everything(tmp_path: Path) -> None:
    with quorum(tmp_path, 3) as voters:
        voters.propose(30)
        for voter in voters.voters:
            voter.kill()
        for voter in voters.voters:
            voter.start()
        voters.check()


@pytest.mark.invariant("R20")
def test_a_closed_connection_is_enough_to_elect_anew(tmp_path: Path) -> None:
    """NoIdentity waits for the fetch timeout, which is far longer than this test, when the leader's process dies."""
    with quorum(tmp_path, 3, {"controller.quorum.fetch.timeout.ms": "600000"}) as voters:
        voters.propose(5)
        leader = voters.leader()
        leader.kill()
        voters.propose(5)


def test_a_clean_stop_hands_over(tmp_path: Path) -> None:
    with quorum(tmp_path, 3, {"controller.quorum.fetch.timeout.ms": "600000"}) as voters:
        voters.propose(5)
        leader = voters.leader()
        assert leader.stop() == 0
        voters.propose(5)
        leader.start()
        voters.check()


@pytest.mark.invariant("S11")
def test_a_voter_does_not_start_on_the_disk_of_another_cluster(tmp_path: Path) -> None:
    with quorum(tmp_path, 1) as voters:
        voters.propose(1)
        [voter] = voters.voters
        assert voter.stop() == 0
        voters.write_config(voter, {"rookery.cluster.id": "another"})
        voter.start()
        assert voter.process is not None
        assert voter.process.wait(20) != 0
        assert "belongs to cluster quorum-of-real-voters-" in voter.log_text()
