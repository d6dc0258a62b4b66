"""The one place where partitions change: its rules hold for whatever anybody wants."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.controller.state.defaults import Defaults
from rookery.controller.state.election import Election
from rookery.controller.state.partitions import NOTHING, Electorate, Wanted
from rookery.core.metadata.image import Image, LeaderRecoveryState, Partition
from tests.unit.controller.state.clusters import TOPIC, after, cluster, the_partition, with_partition

BROKERS = (1, 2, 3, 4, 5)
SOME = st.lists(st.sampled_from(BROKERS), unique=True, max_size=5).map(tuple)


def change(image: Image, wanted: Wanted, defaults: Defaults | None = None) -> Image:
    electorate = Electorate(image, defaults or Defaults())
    topic = image.topics[TOPIC]
    record = electorate.change(topic, 0, topic.partitions[0], wanted)
    return image if record is None else after(image, [record])


def check_rules(image: Image, *, elr: bool, min_isr: int) -> None:
    """M4 and M5 for one partition."""
    partition = the_partition(image)
    assert set(partition.isr) <= set(partition.replicas)
    assert partition.leader == -1 or partition.leader in partition.isr
    assert not set(partition.isr) & set(partition.elr)
    assert set(partition.elr) <= set(partition.replicas)
    if len(partition.isr) >= min(min_isr, len(partition.replicas)):
        assert partition.elr == ()
    if elr:
        assert partition.isr or partition.leader == -1
    else:
        assert partition.isr
        assert partition.elr == partition.last_known_elr == ()
    if partition.leader != -1:
        assert image.active(partition.leader)
        assert partition.last_known_elr == ()


@st.composite
def states(draw: st.DrawFn) -> tuple[Image, Wanted, bool, int]:
    """A partition that keeps the rules, some brokers out of service, and a wish that respects both."""
    replicas = draw(st.permutations(BROKERS).map(lambda order: tuple(order[: draw(st.integers(1, 4))])))
    min_isr = draw(st.integers(1, 3))
    elr = draw(st.booleans())
    isr = tuple(draw(st.lists(st.sampled_from(replicas), unique=True, min_size=0 if elr else 1)))
    enough = len(isr) >= min(min_isr, len(replicas))
    left = [broker for broker in replicas if broker not in isr]
    eligible = tuple(draw(st.lists(st.sampled_from(left), unique=True))) if elr and left and not enough else ()
    leader = draw(st.sampled_from((*isr, -1))) if isr else -1
    last = (draw(st.sampled_from(replicas)),) if elr and not isr and draw(st.booleans()) else ()
    partition = Partition(
        replicas, isr, leader, 4, 9, elr=eligible, last_known_elr=last if leader == -1 else ()
    )
    dead = set(draw(SOME))
    image = with_partition(cluster(BROKERS, fenced=dead, elr=elr), partition, min_isr=min_isr)
    if draw(st.booleans()):
        image = with_partition(
            cluster(BROKERS, fenced=dead, elr=elr), partition, min_isr=min_isr, unclean=draw(st.booleans())
        )
    target = tuple(broker for broker in draw(SOME) if broker in replicas and broker not in dead)
    wanted = Wanted(
        isr=draw(st.sampled_from((target, tuple(broker for broker in isr if broker not in dead)))),
        lost=draw(SOME)[:1],
        election=draw(st.sampled_from(Election)),
    )
    return image, wanted, elr, min_isr


@pytest.mark.invariant("M3", "M4", "M5")
@settings(deadline=None, max_examples=400)
@given(state=states())
def test_isr_elr_leader_and_epochs_keep_their_rules(state: tuple[Image, Wanted, bool, int]) -> None:
    image, wanted, elr, min_isr = state
    before = the_partition(image)
    result = change(image, wanted)
    now = the_partition(result)
    check_rules(result, elr=elr, min_isr=min_isr)
    if now is before:
        return
    assert now.partition_epoch == before.partition_epoch + 1
    assert now.leader_epoch == before.leader_epoch + (now.leader != before.leader)
    if now.leader not in before.isr + before.elr + (wanted.isr or ()) and now.leader not in (-1, before.leader):
        assert now.isr == (now.leader,)
        assert now.leader_recovery_state is LeaderRecoveryState.RECOVERING


def test_the_last_in_sync_goes_to_the_elr_and_leads_again_when_it_is_back() -> None:
    image = with_partition(cluster(fenced=(1, 2, 3)), Partition((1, 2, 3), (1,), 1), min_isr=2)
    image = change(image, Wanted(isr=()))
    partition = the_partition(image)
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (1,), (1,))
    back = with_partition(cluster(fenced=(2, 3)), partition, min_isr=2)
    now = the_partition(change(back, NOTHING))
    assert (now.leader, now.isr, now.elr, now.last_known_elr) == (1, (1,), (), ())
    assert now.leader_recovery_state is LeaderRecoveryState.RECOVERED


def test_others_than_the_eligible_do_not_lead_unless_the_topic_allows_it() -> None:
    lost = Partition((1, 2, 3), (), -1, elr=(1,), last_known_elr=(1,))
    careful = with_partition(cluster(fenced=(1,)), lost, min_isr=2)
    assert change(careful, NOTHING) is careful
    careless = with_partition(cluster(fenced=(1,)), lost, min_isr=2, unclean=True)
    now = the_partition(change(careless, NOTHING))
    assert (now.leader, now.isr, now.elr) == (2, (2,), ())
    assert now.leader_recovery_state is LeaderRecoveryState.RECOVERING


@pytest.mark.invariant("M8")
def test_who_may_have_lost_records_is_neither_in_sync_nor_eligible() -> None:
    image = with_partition(cluster(fenced=(1,)), Partition((1, 2, 3), (1, 2), 1, elr=()), min_isr=3)
    now = the_partition(change(image, Wanted(isr=(2,), lost=(1,))))
    assert (now.isr, now.elr, now.leader) == ((2,), (), 2)


@pytest.mark.invariant("P16")
def test_a_reassignment_ends_when_the_added_are_in_sync_and_enough_remain() -> None:
    moving = Partition(
        (3, 4, 1, 2), (1, 2), 1, adding_replicas=(3, 4), removing_replicas=(1, 2), leader_epoch=5
    )
    image = with_partition(cluster(BROKERS), moving, min_isr=2)
    half = change(image, Wanted(isr=(1, 2, 3)))
    assert the_partition(half).removing_replicas == (1, 2)
    done = the_partition(change(half, Wanted(isr=(1, 2, 3, 4))))
    assert (done.replicas, done.isr, done.leader) == ((3, 4), (3, 4), 3)
    assert not done.reassigning
    assert done.leader_epoch == 6
