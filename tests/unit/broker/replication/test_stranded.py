"""Leaders that hear neither the controller nor their followers, and what they tell clients."""

from random import Random
from uuid import UUID

import pytest

from rookery.broker.replication.other_leaders import OtherLeaders
from rookery.core.errors import NotLeaderOrFollowerError, RequestTimedOutError
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.replication.test_isr import ME, SESSION_MS, Leader, led

TOPIC = UUID(int=1)
ALL = -1


def silent(isr: tuple[int, ...] = (ME, 2, 3)) -> Leader:
    """Its session is over, and nobody has fetched for as long."""
    leader = Leader(isr)
    leader.clock.advance(SESSION_MS / 1000 + 1)
    leader.sets.set_session(False)
    return leader


def leaders(leader: Leader) -> OtherLeaders:
    return OtherLeaders(ME, leader.partitions, Random(1), lambda: leader.sets.session_lasts)


def named(leader: Leader) -> set[int]:
    found = leaders(leader)
    return {found.leader(TOPIC, 0, leader.partition.state) for _ in range(50)}


def test_a_stranded_leader_takes_nothing_that_it_cannot_commit() -> None:
    """Producers look for another leader; a coordinator may go on when the fault is over. Who does not wait for the
    replicas is served as before."""
    leader = silent()
    end = leader.partition.log.end_offset
    with pytest.raises(NotLeaderOrFollowerError, match="nothing can be committed by broker 1"):
        leader.partition.append_as_leader(batch(), ALL, NOW)
    with pytest.raises(RequestTimedOutError, match="nothing can be committed by broker 1"):
        leader.partition.append_own(batch(), 1, NOW)
    assert leader.partition.log.end_offset == end
    leader.partition.append_as_leader(batch(), 1, NOW)
    assert leader.partition.log.end_offset > end


def test_either_of_them_is_enough_to_go_on() -> None:
    """Without a controller the brokers go on as long as they hear each other, and without followers the controller
    decides who is in sync."""
    leader = silent()
    for node in (2, 3):
        assert leader.partition.stranded
        leader.fetch(node, 0)
    assert not leader.partition.stranded
    leader.partition.append_as_leader(batch(), ALL, NOW)
    leader = silent()
    leader.sets.set_session(True)
    assert not leader.partition.stranded
    leader.partition.append_as_leader(batch(), ALL, NOW)


def test_a_new_leader_waits_for_its_followers_for_a_whole_session() -> None:
    leader = silent()
    leader.partition.apply(led(2, (ME, 2)))
    assert leader.partition.stranded
    again = Leader((ME, 2))
    again.sets.set_session(False)
    assert not again.partition.stranded


def test_the_only_replica_in_sync_is_never_stranded() -> None:
    leader = silent((ME,))
    assert not leader.partition.stranded
    assert named(leader) == {ME}


def test_a_stranded_leader_names_the_other_replicas_in_sync() -> None:
    leader = silent((ME, 3))
    assert named(leader) == {3}
    leader.fetch(3, 0)
    assert named(leader) == {ME}


def test_what_others_lead_is_reported_as_it_is_known() -> None:
    leader = silent()
    state = led(2)
    state = type(state)(replicas=(ME, 2, 3), isr=(ME, 2, 3), leader=2, leader_epoch=2)
    assert {leaders(leader).leader(TOPIC, 0, state) for _ in range(20)} == {2}


def test_the_regular_look_informs_who_waits() -> None:
    woken = []
    leader = silent()
    leader.partition._wake = lambda partition: woken.append(partition)
    leader.partition.tick()
    assert woken == [leader.partition]
