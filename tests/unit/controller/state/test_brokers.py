"""Brokers register, are fenced and unfenced, stop in order, and are forgotten."""

from dataclasses import replace
from uuid import UUID

import pytest

from rookery.controller.state.brokers import (
    Liveness,
    check_epoch,
    fence,
    heartbeat,
    register_broker,
    unregister_broker,
)
from rookery.controller.state.defaults import Defaults
from rookery.core.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRegistrationError,
    InvalidRequestError,
    StaleBrokerEpochError,
    UnsupportedVersionError,
)
from rookery.core.metadata.image import EMPTY, FeatureRange, Image, Partition
from rookery.core.metadata.requests import (
    HeartbeatReply,
    HeartbeatRequest,
    RegisterBrokerRequest,
    UnregisterBrokerRequest,
)
from tests.unit.controller.state.clusters import (
    CLUSTER,
    after,
    cluster,
    directory,
    register_request,
    registration,
    the_partition,
    with_partition,
)

GONE, ALIVE = Liveness(), Liveness(in_session=True)


def register(image: Image, request: RegisterBrokerRequest, liveness: Liveness = GONE) -> tuple[int, Image]:
    decision = register_broker(image, request, cluster_id=CLUSTER, liveness=liveness, defaults=Defaults())
    later = after(image, decision.records)
    return decision.reply(later).broker_epoch, later


def beat(image: Image, broker: int, liveness: Liveness = ALIVE, **fields: object) -> tuple[HeartbeatReply, Image]:
    offset = fields.pop("metadata_offset", image.offset)
    request = HeartbeatRequest(broker, image.brokers[broker].epoch, offset, **fields)  # type: ignore[arg-type]
    decision = heartbeat(image, request, liveness, Defaults())
    later = after(image, decision.records)
    return decision.reply(later), later


@pytest.mark.row(77)
@pytest.mark.invariant("M7")
def test_a_registration_fences_and_its_offset_is_the_epoch() -> None:
    epoch, image = register(EMPTY, register_request(1, 10))
    assert epoch == image.brokers[1].epoch == image.offset == 0
    assert image.brokers[1].fenced


@pytest.mark.invariant("M7")
def test_asking_again_gives_the_same_epoch_and_writes_nothing() -> None:
    epoch, image = register(EMPTY, register_request(1, 10))
    again, same = register(image, register_request(1, 10), ALIVE)
    assert again == epoch
    assert same.offset == image.offset


@pytest.mark.invariant("M7")
def test_another_process_gets_another_epoch_once_the_first_is_gone() -> None:
    epoch, image = register(EMPTY, register_request(1, 10))
    with pytest.raises(DuplicateBrokerRegistrationError, match="another process is alive as broker 1"):
        register(image, register_request(1, 11), ALIVE)
    later, image = register(image, register_request(1, 11))
    assert later > epoch
    with pytest.raises(StaleBrokerEpochError, match=f"has epoch {later}, not {epoch}"):
        check_epoch(image, 1, epoch)


def test_a_stopping_broker_may_come_back_before_its_session_ends() -> None:
    image = cluster((1, 2), stopping=(1,))
    epoch, _ = register(image, register_request(1, 11), ALIVE)
    assert epoch > image.brokers[1].epoch


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ({"cluster_id": "other"}, InconsistentClusterIdError, "belongs to cluster other"),
        ({"broker_id": -1}, InvalidRegistrationError, "no broker id"),
        ({"endpoints": ()}, InvalidRegistrationError, "no listener"),
        ({"log_dirs": (directory(9), directory(9))}, InvalidRegistrationError, "two log directories"),
        ({"log_dirs": (directory(2),)}, InvalidRegistrationError, "belong to broker 2"),
        ({"features": ()}, UnsupportedVersionError, "and this is not known here"),
        ({"features": (FeatureRange("metadata.version", 8, 9),)}, UnsupportedVersionError, "not known|8 to 9 are"),
    ],
)
def test_a_registration_that_cannot_be_is_refused(
    change: dict[str, object], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        register(cluster((2, 3)), register_request(**{"broker": 5, "incarnation": 50, **change}))  # type: ignore[arg-type]


@pytest.mark.invariant("M5", "M8")
@pytest.mark.parametrize(("clean", "eligible"), [(True, (1,)), (False, ())])
def test_after_an_unclean_stop_a_broker_leaves_isr_and_elr_by_its_own_registration(
    clean: bool, eligible: tuple[int, ...]
) -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (1, 2), 1), min_isr=2)
    marker = image.brokers[1].epoch if clean else -1
    _, image = register(image, register_request(1, 11, previous_broker_epoch=marker))
    partition = the_partition(image)
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), eligible)


@pytest.mark.invariant("M8")
def test_a_marker_of_an_earlier_life_is_not_clean() -> None:
    image = with_partition(cluster(fenced=(1,)), Partition((1, 2, 3), (2,), 2, elr=(1,)), min_isr=2)
    stale = image.brokers[1].epoch - 1
    _, image = register(image, register_request(1, 11, previous_broker_epoch=stale))
    assert the_partition(image).elr == ()


@pytest.mark.invariant("M8", "P17")
def test_a_replica_whose_disk_was_replaced_is_not_eligible_even_after_a_clean_stop() -> None:
    placed = (directory(1), directory(2), directory(3))
    image = with_partition(
        cluster(fenced=(1,)), Partition((1, 2, 3), (2,), 2, elr=(1,), directories=placed), min_isr=2
    )
    request = register_request(1, 11, previous_broker_epoch=image.brokers[1].epoch, log_dirs=(UUID(int=77),))
    _, image = register(image, request)
    assert the_partition(image).elr == ()


@pytest.mark.row(69, 77)
def test_a_broker_is_unfenced_when_it_has_caught_up_with_its_registration() -> None:
    epoch, image = register(cluster((2,)), register_request(1, 10))
    behind, image = beat(image, 1, metadata_offset=epoch - 1)
    assert (behind.caught_up, behind.fenced) == (False, True)
    waiting, image = beat(image, 1, metadata_offset=epoch, want_fence=True)
    assert (waiting.caught_up, waiting.fenced) == (True, True)
    ready, image = beat(image, 1, metadata_offset=epoch)
    assert (ready.caught_up, ready.fenced) == (True, False)
    assert image.brokers[1].active


@pytest.mark.row(65, 67, 69)
@pytest.mark.invariant("M5")
def test_fencing_moves_leaders_and_shrinks_isr_in_the_same_batch() -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (1, 2, 3), 1), min_isr=2)
    records = fence(image, 1, Defaults())
    later = after(image, records)
    partition = the_partition(later)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 1)
    assert fence(later, 1, Defaults()) == []
    reply, back = beat(later, 1)
    assert not reply.fenced
    assert the_partition(back).leader == 2  # it comes back as a follower


@pytest.mark.row(65)
@pytest.mark.invariant("M9")
def test_the_last_in_sync_leads_again_when_it_is_unfenced() -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (1,), 1), min_isr=2)
    image = after(image, fence(image, 1, Defaults()))
    assert (the_partition(image).leader, the_partition(image).elr) == (-1, (1,))
    _, image = beat(image, 1)
    assert (the_partition(image).leader, the_partition(image).isr) == (1, (1,))


@pytest.mark.row(77)
@pytest.mark.invariant("M5")
def test_a_controlled_shutdown_moves_leaders_first_and_waits_for_the_others() -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (1, 2, 3), 1), min_isr=2)
    first, image = beat(image, 1, want_shut_down=True)
    assert (first.should_shut_down, first.fenced) == (False, False)
    assert (the_partition(image).leader, the_partition(image).isr) == (2, (2, 3))
    gave_up = image.offset
    slow = replace(ALIVE, shutdown_offset=gave_up, others_offset=gave_up - 1)
    waiting, image = beat(image, 1, slow, want_shut_down=True)
    assert not waiting.should_shut_down
    done, image = beat(image, 1, replace(slow, others_offset=gave_up), want_shut_down=True)
    assert (done.should_shut_down, done.fenced) == (True, True)
    assert image.brokers[1].fenced


def test_a_fenced_broker_may_stop_at_once() -> None:
    reply, _ = beat(cluster(fenced=(1,)), 1, want_shut_down=True)
    assert reply.should_shut_down


def test_a_broker_can_ask_to_be_fenced() -> None:
    reply, image = beat(cluster(), 1, want_fence=True)
    assert reply.fenced
    assert image.brokers[1].fenced


@pytest.mark.invariant("M7")
def test_a_heartbeat_of_an_earlier_life_is_refused() -> None:
    image = cluster()
    request = HeartbeatRequest(1, image.brokers[1].epoch + 1, 0)
    with pytest.raises(StaleBrokerEpochError):
        heartbeat(image, request, ALIVE, Defaults())
    with pytest.raises(StaleBrokerEpochError, match="must register first"):
        heartbeat(image, HeartbeatRequest(9, 0, 0), ALIVE, Defaults())


def test_an_unregistered_broker_holds_nothing() -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (1, 2), 1), min_isr=3)
    with pytest.raises(InvalidRequestError, match="is alive"):
        unregister_broker(image, UnregisterBrokerRequest(1), Defaults())
    image = after(image, fence(image, 1, Defaults()))
    decision = unregister_broker(image, UnregisterBrokerRequest(1), Defaults())
    image = after(image, decision.records)
    assert 1 not in image.brokers
    assert (the_partition(image).leader, the_partition(image).isr, the_partition(image).elr) == (2, (2,), ())
    with pytest.raises(BrokerIdNotRegisteredError):
        unregister_broker(image, UnregisterBrokerRequest(1), Defaults())


@pytest.mark.invariant("P17")
def test_a_failed_directory_costs_its_partitions_and_no_others() -> None:
    other = UUID(int=555)
    image = cluster(())
    _, image = register(image, register_request(1, 1, log_dirs=(directory(1), other)))
    _, image = beat(image, 1)
    image = after(image, [registration(2)])
    image = with_partition(image, Partition((1, 2), (1, 2), 1, directories=(other, directory(2))), min_isr=1)
    reply, later = beat(image, 1, offline_log_dirs=(other,))
    assert not reply.fenced
    assert later.brokers[1].directories == (directory(1),)
    assert (the_partition(later).leader, the_partition(later).isr, the_partition(later).elr) == (2, (2,), ())
    untouched = with_partition(
        after(cluster((1, 2)), []), Partition((1, 2), (1, 2), 1, directories=(directory(1), directory(2)))
    )
    _, same = beat(untouched, 1, offline_log_dirs=(other,))
    assert the_partition(same) == the_partition(untouched)
