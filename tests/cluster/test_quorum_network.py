"""Faults that live in gRPC and TCP: connections that die without a word, calls that never return, reconnects."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.netns import Network, network
from tests.cluster.quorum import Quorum, VoterProcess, eventually, running

pytestmark = pytest.mark.alone


@contextmanager
def networked(folder: Path, options: dict[str, str] | None = None) -> Iterator[tuple[Quorum, Network]]:
    with network(3) as wires:
        made = Quorum(folder, 3, options)
        for voter in made.voters:
            voter.host, voter.port = wires.address(voter.node_id), 9093
            voter.prefix = wires.inside(voter.node_id)
        with running(made):
            yield made, wires


def others(voters: Quorum, one: VoterProcess) -> list[VoterProcess]:
    return [voter for voter in voters.voters if voter is not one]


def leads(voter: VoterProcess) -> bool:
    return (voter.look() or {}).get("leads") is True


@pytest.mark.invariant("R1", "R5", "R10", "R20")
def test_a_leader_cut_off_without_a_word_is_replaced_gives_up_and_comes_back(tmp_path: Path) -> None:
    with networked(tmp_path) as (voters, wires):
        voters.propose(10)
        lost = voters.leader()
        wires.cut(lost.node_id)
        rest = others(voters, lost)
        eventually("the others elect", lambda: any(leads(voter) for voter in rest))
        eventually("the lost leader resigns by itself", lambda: not leads(lost))
        voters.propose(10)
        time.sleep(3)  # long enough for keep-alive to give the old connections up, so that new ones must be made
        wires.heal()
        healed = time.monotonic()
        eventually("the lost one follows", lambda: (lost.look() or {}).get("leader") == voters.leader().node_id)
        print(f"back {time.monotonic() - healed:.2f} s after the network")
        voters.check()


@pytest.mark.invariant("R1", "R5", "R10")
@pytest.mark.parametrize("direction", ["incoming", "outgoing"])
def test_a_leader_that_only_sends_or_only_receives_is_replaced(tmp_path: Path, direction: str) -> None:
    with networked(tmp_path) as (voters, wires):
        voters.propose(10)
        half = voters.leader()
        wires.cut(half.node_id, incoming=direction == "incoming", outgoing=direction == "outgoing")
        rest = others(voters, half)
        eventually("the others elect", lambda: any(leads(voter) for voter in rest))
        eventually("the half-cut leader resigns", lambda: not leads(half))
        voters.propose(5)
        wires.heal()
        voters.check()


@pytest.mark.invariant("R11")
def test_a_follower_that_was_cut_off_does_not_disturb_the_leader(tmp_path: Path) -> None:
    with networked(tmp_path, {"controller.quorum.fetch.timeout.ms": "10000"}) as (voters, wires):
        voters.propose(10)
        leader = voters.leader()
        epoch = (leader.look() or {})["epoch"]
        follower = others(voters, leader)[0]
        wires.cut(follower.node_id)
        eventually("it misses the leader", lambda: (follower.look() or {}).get("leader") == -1, within_s=60)
        voters.propose(10)
        wires.heal()
        back = eventually("it follows again", lambda: (follower.look() or {}).get("leader") == leader.node_id)
        assert back
        voters.check()
        assert (leader.look() or {})["epoch"] == epoch
        assert leads(leader)
