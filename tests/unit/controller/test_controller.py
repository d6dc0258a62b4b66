"""The single writer: answers wait for commit, what is lost with leadership is dropped, time is kept."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from rookery.controller.state.defaults import Defaults
from rookery.controller.state.features import bootstrap
from rookery.core.errors import (
    NotControllerError,
    RequestTimedOutError,
    StaleBrokerEpochError,
    ThrottlingQuotaExceededError,
)
from rookery.core.metadata import requests as q
from rookery.core.metadata.codec import decode, encode
from rookery.core.metadata.features import ELR_VERSION, RELEASE
from rookery.core.metadata.image import ResourceType
from rookery.core.metadata.records import ConfigRecord
from rookery.core.metadata.snapshot import state_hash
from rookery.core.metrics import Metrics
from tests.unit.controller.desk import Desk

CREATE_A = q.CreateTopicsRequest((q.NewTopic("a", 1, 1),))


@pytest.fixture
def desk() -> Desk:
    desk = Desk().lead()
    desk.broker(1)
    return desk


@pytest.mark.invariant("M2", "R16")
def test_an_answer_waits_for_the_commit(desk: Desk) -> None:
    answers = desk.submit(CREATE_A)
    assert answers == []
    assert desk.controller.committed.topic("a") is None
    desk.quorum.commit()
    assert answers[0].topics[0].error == 0
    assert desk.controller.committed.topic("a") is not None


@pytest.mark.invariant("M2", "R16")
def test_a_refusal_that_rests_on_something_uncommitted_waits_too(desk: Desk) -> None:
    first, second = desk.submit(CREATE_A), desk.submit(CREATE_A)
    assert (first, second) == ([], [])
    desk.quorum.commit()
    assert [answer.topics[0].error for answer in first + second] == [0, 36]


@pytest.mark.invariant("M2", "R16")
def test_an_error_of_the_whole_request_waits_too(desk: Desk) -> None:
    desk.submit(CREATE_A)
    refused = desk.submit(q.AllocateProducerIdsRequest(1, 12345))
    assert refused == []
    desk.quorum.commit()
    assert isinstance(refused[0], StaleBrokerEpochError)


@pytest.mark.row(79)
@pytest.mark.invariant("M2")
def test_with_leadership_everything_proposed_is_dropped_and_callers_are_informed(desk: Desk) -> None:
    waiting = desk.submit(CREATE_A)
    queued: list[object] = []
    desk.controller.submit(CREATE_A, queued.append)
    desk.quorum.resign()
    assert isinstance(waiting[0], NotControllerError)
    assert isinstance(queued[0], NotControllerError)
    assert not desk.controller.active
    assert isinstance(desk.submit(CREATE_A)[0], NotControllerError)
    desk.lead()
    assert desk.ask(CREATE_A).topics[0].error == 0  # nothing of the dropped one is left


def test_a_refused_caller_learns_who_leads(desk: Desk) -> None:
    desk.controller.on_leader(3, 9)
    (answer,) = desk.submit(CREATE_A)
    assert "node 3 is (epoch 9)" in str(answer)


@pytest.mark.row(79)
@pytest.mark.invariant("M1")
def test_a_restarted_controller_has_the_same_state_from_the_log_or_from_a_snapshot(desk: Desk) -> None:
    desk.topic("a", 3)
    before = state_hash(desk.controller.committed)
    desk.restart()
    assert state_hash(desk.controller.committed) == before
    desk.lead()
    desk.settings = replace(desk.settings, snapshot_bytes=1)
    desk.restart()
    desk.tick()
    assert desk.quorum.snapshot is not None
    assert desk.quorum.committed == []
    desk.restart()
    assert state_hash(desk.controller.committed) == before


def test_a_new_cluster_starts_with_its_features_switched_on() -> None:
    desk = Desk().lead()
    assert desk.controller.committed.features[ELR_VERSION] == 1
    desk.restart()
    desk.lead()
    features = [b for b in desk.quorum.committed for value in b.values if decode(value) in bootstrap()]
    assert len(features) == len(bootstrap())  # once is enough


@pytest.mark.invariant("M4")
def test_a_new_cluster_and_an_old_log_get_the_min_isr_that_elr_rests_on() -> None:
    desk = Desk(defaults=Defaults(min_insync_replicas=2)).lead()
    assert desk.controller.committed.config(ResourceType.BROKER, "")["min.insync.replicas"] == "2"
    gone = ConfigRecord(ResourceType.BROKER, "", "min.insync.replicas", None)
    desk.quorum.propose(desk.controller.leader[1], [encode(gone, RELEASE.levels.max_version)])
    desk.quorum.commit()
    desk.restart()
    assert not desk.controller.committed.config(ResourceType.BROKER, ""), "as earlier releases left it"
    desk.lead()
    assert desk.controller.committed.config(ResourceType.BROKER, "")["min.insync.replicas"] == "2"


def test_a_new_leader_elects_where_its_configuration_allows_what_the_last_one_did_not(desk: Desk) -> None:
    desk.broker(2)
    desk.topic("a", 1, 2)
    desk.beat(2, want_fence=True)
    desk.beat(1, want_fence=True)
    desk.beat(2)
    desk.settings = replace(desk.settings, defaults=Defaults(unclean_leader_election=True))
    desk.restart()
    desk.lead()
    topic = desk.controller.committed.topic("a")
    assert topic is not None
    assert topic.partitions[0].leader == 2


@pytest.mark.invariant("M7")
def test_the_epoch_given_is_the_offset_also_when_the_quorum_writes_records_of_its_own() -> None:
    desk = Desk().lead()
    first = desk.broker(1)
    desk.lead()  # the quorum's own record lies in between now
    second = desk.broker(2)
    brokers = desk.controller.committed.brokers
    assert (brokers[1].epoch, brokers[2].epoch) == (first, second)
    assert any(batch.base_offset == second for batch in desk.quorum.committed)


def test_a_request_that_is_not_committed_in_time_is_given_up(desk: Desk) -> None:
    answers = desk.submit(CREATE_A, timeout_s=2.0)
    desk.clock.advance(1.9)
    desk.controller.tick()
    assert answers == []
    desk.clock.advance(0.2)
    desk.controller.tick()
    assert isinstance(answers[0], RequestTimedOutError)
    desk.quorum.commit()
    assert len(answers) == 1
    assert desk.controller.committed.topic("a") is not None  # it took effect all the same


@pytest.mark.row(80)
def test_the_queue_is_bounded() -> None:
    desk = Desk(queue_max=2).lead()
    answers: list[object] = []
    for _ in range(3):
        desk.controller.submit(CREATE_A, answers.append)
    assert isinstance(answers[0], ThrottlingQuotaExceededError)
    desk.controller.run()
    desk.quorum.commit()
    assert len(answers) == 3


@pytest.mark.row(80)
def test_events_are_handled_in_order_and_in_turns(desk: Desk) -> None:
    order: list[str] = []
    for name in "abc":
        request = q.CreateTopicsRequest((q.NewTopic(name, 1, 1),))
        desk.controller.submit(request, lambda reply, name=name: order.append(name))  # type: ignore[misc]
    assert desk.controller.run(2)
    assert not desk.controller.run(2)
    desk.quorum.commit()
    assert order == ["a", "b", "c"]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> tuple[Desk, list[Callable[[], None]]]:
    """A controller whose heavy work is done when the test says so."""
    monkeypatch.setattr("rookery.controller.controller.OFFLOADED_FROM", -1)
    desk = Desk(reconnect_grace_s=0.0).lead()
    desk.broker(1)
    desk.broker(2)
    desk.topic("a", 2, 2)
    pending: list[Callable[[], None]] = []
    desk.controller._offload = lambda work, done: pending.append(lambda: done(work()))
    return desk, pending


@pytest.mark.row(80)
def test_while_heavy_work_is_done_elsewhere_nothing_else_is_decided(
    elsewhere: tuple[Desk, list[Callable[[], None]]],
) -> None:
    desk, pending = elsewhere
    desk.clock.advance(9.1)
    desk.controller.tick()
    ids = desk.submit(q.AllocateProducerIdsRequest(1, desk.controller.committed.brokers[1].epoch))
    desk.controller.tick()  # nobody is fenced twice
    desk.quorum.commit()
    assert ids == []
    assert not desk.controller.committed.brokers[2].fenced
    while pending:
        pending.pop()()
        desk.controller.run()
    desk.quorum.commit()
    image = desk.controller.committed
    assert image.brokers[1].fenced
    assert image.brokers[2].fenced
    assert ids[0].first == 0
    assert desk.controller.metrics.heartbeats_timed_out == 2


@pytest.mark.invariant("M2")
def test_what_was_decided_elsewhere_for_a_lost_leadership_is_dropped(
    elsewhere: tuple[Desk, list[Callable[[], None]]],
) -> None:
    desk, pending = elsewhere
    answers = desk.submit(q.UnregisterBrokerRequest(2))
    desk.quorum.resign()
    desk.lead()
    while pending:  # what was decided before, then what the new leadership begins with
        pending.pop()()
        desk.controller.run()
    desk.quorum.commit()
    assert isinstance(answers[0], NotControllerError)
    assert 2 in desk.controller.committed.brokers
    ids = desk.ask(q.AllocateProducerIdsRequest(1, desk.controller.committed.brokers[1].epoch))
    assert ids.first == 0  # and work goes on


@pytest.mark.row(69)
def test_a_silent_broker_is_fenced_after_its_session_and_not_before(desk: Desk) -> None:
    desk.broker(2)
    desk.topic("a", 2, 2)
    for _ in range(8):
        desk.tick(1.1)
        desk.beat(2)
    assert not desk.controller.committed.brokers[1].fenced
    desk.tick(0.3)
    image = desk.controller.committed
    assert image.brokers[1].fenced
    assert not image.brokers[2].fenced
    assert {partition.leader for _, _, partition in image.partitions()} == {2}


@pytest.mark.invariant("M10")
def test_a_new_controller_grants_everybody_a_full_session() -> None:
    desk = Desk(reconnect_grace_s=0.0).lead()
    desk.broker(1)
    desk.tick(8.9)
    desk.quorum.resign()
    desk.lead()
    desk.tick(8.9)
    assert not desk.controller.committed.brokers[1].fenced
    desk.tick(0.2)
    assert desk.controller.committed.brokers[1].fenced


@pytest.mark.row(77)
def test_a_controlled_shutdown_from_the_first_request_to_the_end(desk: Desk) -> None:
    desk.broker(2)
    desk.topic("a", 2, 2)
    assert not desk.beat(1, want_shut_down=True).should_shut_down
    assert {partition.leader for _, _, partition in desk.controller.committed.partitions()} == {2}
    assert not desk.beat(1, want_shut_down=True).should_shut_down  # broker 2 may not know it yet
    desk.beat(2)
    assert desk.beat(1, want_shut_down=True).should_shut_down


@pytest.mark.row(77)
def test_a_controlled_shutdown_survives_a_change_of_controller(desk: Desk) -> None:
    desk.broker(2)
    desk.topic("a", 2, 2)
    desk.beat(1, want_shut_down=True)
    desk.quorum.resign()
    desk.lead()
    desk.beat(2)
    assert desk.beat(1, want_shut_down=True).should_shut_down


def without_a_broker(partitions: int) -> Desk:
    """Two brokers, of which the first was away: the second leads all, and is alone in sync."""
    desk = Desk(rebalance_check_s=5.0, session_s=60.0).lead()
    for broker in (1, 2):
        desk.broker(broker)
    desk.topic("a", partitions, 2)
    desk.beat(1, want_fence=True)
    desk.beat(1)
    assert led_by_the_first(desk) == 0
    return desk


def catch_up(desk: Desk, *indexes: int) -> None:
    """The first broker is in sync again with some partitions."""
    back = [
        q.IsrChange(topic.id, index, p.leader_epoch, p.partition_epoch, (q.IsrMember(1), q.IsrMember(2)))
        for topic, index, p in desk.controller.committed.partitions()
        if index in indexes
    ]
    epoch = desk.controller.committed.brokers[2].epoch
    desk.ask(q.AlterPartitionRequest(2, epoch, tuple(back)))


def led_by_the_first(desk: Desk) -> int:
    return sum(partition.leader == 1 for _, _, partition in desk.controller.committed.partitions())


@pytest.mark.row(70)
def test_leadership_is_rebalanced_by_itself() -> None:
    desk = without_a_broker(4)
    catch_up(desk, *range(4))
    desk.tick(4.9)
    assert led_by_the_first(desk) == 0
    desk.tick(0.2)
    assert led_by_the_first(desk) == 2


@pytest.mark.row(70)
def test_a_leader_that_caught_up_last_returns_too() -> None:
    """Few misplaced leaders among many are still misplaced."""
    desk = without_a_broker(40)
    last = next(index for _, index, p in desk.controller.committed.partitions() if p.preferred_leader == 1)
    catch_up(desk, *(index for index in range(40) if index != last))
    desk.tick(5.1)
    assert led_by_the_first(desk) == 19
    catch_up(desk, last)
    desk.tick(5.1)
    assert led_by_the_first(desk) == 20


@pytest.mark.row(70)
def test_a_large_rebalance_comes_in_parts_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.controller.upkeep.ELECTIONS_MAX", 2)
    desk = without_a_broker(10)
    catch_up(desk, *range(10))
    moved = []
    for pause in (5.1, 0.1, 0.1, 0.1):
        desk.tick(pause)
        moved.append(led_by_the_first(desk))
    assert moved == [2, 4, 5, 5]


def test_an_idle_controller_keeps_the_log_moving() -> None:
    desk = Desk(idle_record_s=0.5).lead()
    offset = desk.controller.committed.offset
    desk.tick(0.4)
    assert desk.controller.committed.offset == offset
    desk.tick(0.2)
    assert desk.controller.committed.offset == offset + 1


@pytest.mark.row(75, 80)
def test_metrics_show_what_is_there(desk: Desk) -> None:
    metrics = Metrics()
    desk.controller.metrics.register(metrics)

    def value(name: str) -> float | None:
        return metrics.value(f"kafka_controller_kafkacontroller_{name}")

    desk.broker(2)
    desk.topic("a", 4, 2)
    assert value("activecontrollercount") == 1
    assert (value("globaltopiccount"), value("globalpartitioncount")) == (1, 4)
    assert (value("activebrokercount"), value("fencedbrokercount")) == (2, 0)
    assert (value("offlinepartitionscount"), value("preferredreplicaimbalancecount")) == (0, 0)
    desk.beat(1, want_fence=True)
    assert (value("activebrokercount"), value("fencedbrokercount")) == (1, 1)
    assert (value("offlinepartitionscount"), value("preferredreplicaimbalancecount")) == (0, 2)
    desk.beat(2, want_fence=True)
    assert value("offlinepartitionscount") == 4
    assert (metrics.value("kafka_controller_controllereventmanager_eventqueuetimems_count") or 0) > 0
    quantile = {"quantile": "0.99"}
    assert metrics.value("kafka_controller_controllereventmanager_eventqueuetimems", quantile) is not None
    desk.quorum.resign()
    assert value("activecontrollercount") == 0


@pytest.mark.row(66)
def test_unclean_elections_are_counted(desk: Desk) -> None:
    metrics = Metrics()
    desk.controller.metrics.register(metrics)
    desk.broker(2)
    desk.topic("a", 1, 2)
    desk.beat(2, want_fence=True)
    desk.beat(1, want_fence=True)
    desk.beat(2)
    assert metrics.value("kafka_controller_kafkacontroller_offlinepartitionscount") == 1
    change = q.ConfigChange("unclean.leader.election.enable", q.ConfigOp.SET, "true")
    desk.ask(q.AlterConfigsRequest((q.ConfigAlteration(2, "a", (change,)),)))
    desk.ask(q.ElectLeadersRequest(q.ElectionType.UNCLEAN, (q.NamedPartition("a", 0),)))
    assert metrics.value("kafka_controller_controllerstats_uncleanleaderelections_total") == 1


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, logger="rookery.controller"):
        yield caplog


@pytest.mark.row(78)
def test_every_committed_change_is_reported_as_an_event(events: pytest.LogCaptureFixture) -> None:
    desk = Desk().lead()
    desk.broker(1)
    desk.broker(2)
    desk.topic("a", 1, 2)
    desk.beat(1, want_fence=True)
    desk.ask(q.DeleteTopicsRequest((q.TopicReference(name="a"),)))
    told = [record.message for record in events.records]
    expected = ["broker.registered", "broker.unfenced", "topic.created", "broker.fenced", "leader.elected"]
    for event in ("controller.activated", *expected, "isr.changed", "topic.deleted"):
        assert event in told
