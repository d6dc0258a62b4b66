"""A cluster inside this process: three nodes, each fault shown to do what it says and to be undone."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.testing import Cluster, History, UnsupportedFault
from rookery.testing.embedded import EmbeddedNodes
from tests.unit.testing.clients import Sender

OPTIONS = {"replica.lag.time.max.ms": 1500, "broker.session.timeout.ms": 1500, "broker.heartbeat.interval.ms": 300}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, config=OPTIONS) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.replace("[", "-").replace("]", "")
    cluster.create_topic(name, replication_factor=3, config={"min.insync.replicas": 2})
    yield name
    cluster.undo_all()
    cluster.wait_in_sync(name)


def follower_of(cluster: Cluster, topic: str) -> int:
    leader = cluster.leader(topic)
    return next(node for node in cluster.ids if node != leader)


def test_any_client_connects_and_the_log_can_be_asked(cluster: Cluster, topic: str) -> None:
    sender = Sender(cluster, topic)
    assert sender.send(5) == 5
    assert cluster.high_watermark(topic) == 5
    assert [record.value for record in cluster.records(topic)] == [b"0", b"1", b"2", b"3", b"4"]
    assert cluster.isr(topic) == [1, 2, 3]
    assert topic in cluster.topics()
    cluster.assert_nothing_lost(sender.history, topic)


@pytest.mark.parametrize("fault", ["kill", "stop_node", "lose_power"])
def test_the_leader_is_lost_and_writes_go_on(cluster: Cluster, topic: str, fault: str) -> None:
    sender = Sender(cluster, topic)
    assert sender.send() == 10
    leader = cluster.leader(topic)
    with getattr(cluster, fault)(leader):
        assert sender.send() == 10
        assert cluster.leader(topic) != leader
        cluster.wait_for(lambda: leader not in cluster.isr(topic), f"node {leader} to leave the ISR")
    cluster.wait_in_sync(topic)
    assert sender.send() == 10
    cluster.assert_nothing_lost(sender.history, topic)


def test_a_paused_leader_is_replaced_and_learns_it_when_it_goes_on(cluster: Cluster, topic: str) -> None:
    sender = Sender(cluster, topic)
    assert sender.send() == 10
    leader = cluster.leader(topic)
    with cluster.pause(leader):
        cluster.wait_for(lambda: cluster.leader(topic) != leader, "another leader")
        cluster.wait_for(lambda: leader not in cluster.isr(topic), f"node {leader} to leave the ISR")
    cluster.wait_in_sync(topic)
    assert sender.send() == 10
    cluster.assert_nothing_lost(sender.history, topic)


def test_a_killed_node_refuses_connections_until_it_is_started(cluster: Cluster, topic: str) -> None:
    with cluster.kill(2) as fault:
        assert not cluster.nodes.is_up(2)
        assert fault.lasts
    assert cluster.nodes.is_up(2)
    assert not fault.lasts
    fault.undo()


def test_a_follower_that_is_cut_off_leaves_the_isr_and_returns(cluster: Cluster, topic: str) -> None:
    sender = Sender(cluster, topic)
    lost = follower_of(cluster, topic)
    with cluster.partition([lost], [node for node in cluster.ids if node != lost]):
        assert sender.send() == 10
        cluster.wait_for(lambda: lost not in cluster.isr(topic), f"node {lost} to leave the ISR")
    cluster.wait_in_sync(topic)
    cluster.assert_nothing_lost(sender.history, topic)


def test_a_slow_leader_delays_acknowledgements(cluster: Cluster, topic: str) -> None:
    assert isinstance(cluster.nodes, EmbeddedNodes)
    network, leader, other = cluster.nodes.network, cluster.leader(topic), follower_of(cluster, topic)
    with cluster.slow(leader, ms=300):
        assert Sender(cluster, topic).send(1) == 1
        assert network.delay_s(f"node-{leader}", f"node-{other}") == 0.3
    assert network.delay_s(f"node-{leader}", f"node-{other}") == network.delay_s(f"node-{other}", f"node-{leader}") == 0
    slow = cluster.trace(topic, 0, 0)
    assert slow.appended_s is not None
    assert slow.committed_s is not None
    assert slow.committed_s - slow.appended_s >= 0.3


def test_a_full_disk_takes_the_log_dir_offline(cluster: Cluster, topic: str) -> None:
    sender = Sender(cluster, topic)
    sender.send()
    leader, began = cluster.leader(topic), cluster.timeline.now_s
    with cluster.disk_full(leader):
        assert sender.send() == 10
        assert cluster.leader(topic) != leader
    assert "no space left on the disk" in cluster.story(began)
    cluster.wait_in_sync(topic)
    cluster.assert_nothing_lost(sender.history, topic)


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_lost_answer_is_a_duplicate_only_without_idempotence(
    cluster: Cluster, topic: str, idempotent: bool
) -> None:
    sender = Sender(cluster, topic, **{"enable.idempotence": idempotent})
    with cluster.drop_answers("Produce"):
        assert sender.send(1) == 1
    values = [record.value for record in cluster.records(topic)]
    assert values == [b"0"] * (1 if idempotent else 2)


def test_answers_pass_again_when_that_is_undone(cluster: Cluster, topic: str) -> None:
    began = cluster.timeline.now_s
    cluster.drop_answers("Produce", times=100).undo()
    assert Sender(cluster, topic, **{"enable.idempotence": False}).send(1) == 1
    assert len(cluster.records(topic)) == 1
    assert "an answer to Produce is lost" not in cluster.story(began)


def test_a_fault_outlives_others_on_the_same_nodes(cluster: Cluster, topic: str) -> None:
    assert isinstance(cluster.nodes, EmbeddedNodes)
    network = cluster.nodes.network
    slow, wide, narrow = cluster.slow(1, ms=20), cluster.partition([1], [2, 3]), cluster.partition([1], [2])
    wide.undo()
    assert not network.linked("node-1", "node-2")
    assert network.linked("node-1", "node-3")
    narrow.undo()
    assert network.linked("node-1", "node-2")
    assert network.delay_s("node-1", "node-2") == 0.02
    slow.undo()
    assert network.delay_s("node-1", "node-2") == 0
    with cluster.drop_answers("Produce"):
        cluster.restart(cluster.leader(topic), kill=True)
        began = cluster.timeline.now_s
        assert Sender(cluster, topic).send(1) == 1
    assert "an answer to Produce is lost" in cluster.story(began)


def test_an_unknown_api_is_refused_by_name(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="no API 'Prodduce'"):
        cluster.drop_answers("Prodduce")


def test_the_clock_of_a_node_jumps(cluster: Cluster) -> None:
    topic = "clock"
    cluster.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    sender = Sender(cluster, topic)
    sender.send(1)
    leader, hour = cluster.leader(topic), 3_600_000
    with cluster.clock_jump(leader, hour):
        sender.send(1)
    sender.send(1)
    first, ahead, last = (record.timestamp for record in cluster.records(topic))
    assert ahead - first >= hour
    assert last - first < hour


def test_a_damaged_replica_is_found_and_never_served(cluster: Cluster, topic: str) -> None:
    sender = Sender(cluster, topic)
    sender.send(50)
    leader = cluster.leader(topic)
    before = cluster.trace(topic, 0, 49)
    cluster.kill(leader)
    with cluster.corrupt(topic, 0, leader):
        cluster.start_node(leader)
        cluster.wait_in_sync(topic)
    after = cluster.trace(topic, 0, 49)
    assert after.replicated_s[leader] > before.replicated_s[leader], "it was cut off, and fetched from another"
    cluster.assert_nothing_lost(sender.history, topic)


def test_a_bit_that_nobody_saw_is_flipped_back(cluster: Cluster, topic: str) -> None:
    Sender(cluster, topic).send(5)
    with cluster.kill(2):
        path = cluster.nodes.replica_files(2, f"{topic}-0")[-1]
        before = cluster.nodes.contents(2, path)
        with cluster.corrupt(topic, 0, 2):
            damaged = cluster.nodes.contents(2, path)
        assert sum(one != other for one, other in zip(before, damaged, strict=True)) == 1
        assert cluster.nodes.contents(2, path) == before


def test_a_lost_record_is_found_by_the_check(cluster: Cluster, topic: str) -> None:
    Sender(cluster, topic).send(1)
    lied = History()
    lied.on_sent(0, b"0")
    lied.on_acked(0, 0, b"0")
    lied.on_sent(0, b"1")
    lied.on_acked(0, 1, b"1")
    with pytest.raises(AssertionError, match="b'1' acknowledged at 1 is lost"):
        cluster.assert_nothing_lost(lied, topic)


def test_a_wait_in_vain_says_what_happened(cluster: Cluster, topic: str) -> None:
    with cluster.pause(3), pytest.raises(AssertionError) as raised:
        cluster.wait_for(lambda: False, "the impossible", timeout_s=0.1)
    assert "waited 0.1 s for the impossible; the last answer was False" in str(raised.value)
    with pytest.raises(AssertionError, match="connection refused"):
        cluster.wait_for(_refused, timeout_s=0.05)


def _refused() -> bool:
    raise OSError("connection refused")


@pytest.mark.row(182)
def test_a_trace_says_what_became_of_a_record(cluster: Cluster, topic: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    began, leader = cluster.timeline.now_s, cluster.leader(topic)
    behind = follower_of(cluster, topic)
    with cluster.pause(behind):
        assert Sender(cluster, topic).send(3) == 3
        without = cluster.trace(topic, 0, 1)
        resumed = cluster.timeline.now_s
    cluster.wait_for(lambda: behind in cluster.trace(topic, 0, 1).replicated_s, "the last replica")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"g-{topic}"})
    asked = cluster.timeline.now_s
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    read, unread, never = (cluster.trace(topic, 0, offset) for offset in (1, 2, 99))

    assert set(without.replicated_s) == {1, 2, 3} - {behind}
    assert (without.committed, without.read_by, without.read_s) == (True, (), {})
    assert read.appended_s == read.replicated_s[leader]
    assert read.committed_s is not None
    assert began < read.replicated_s[leader] <= read.committed_s < resumed < read.replicated_s[behind]
    assert (read.committed, read.replicas, read.read_by) == (True, without.replicas, (f"g-{topic}",))
    assert read.read_s[f"g-{topic}"] > asked
    assert f"node-{leader}   appended" in str(read)
    assert f"node-{behind}   replicated" in str(read)
    assert (unread.read_by, unread.read_s, unread.committed) == ((), {}, True)
    assert (never.committed, never.appended_s, never.timestamp_ms) == (False, None, -1)


def test_chaos_from_a_seed_loses_nothing(cluster: Cluster, topic: str) -> None:
    sender = Sender(cluster, topic)
    with cluster.chaos(seed=7, lasting_s=(0.1, 0.4), between_s=(0.05, 0.1)) as chaos:
        while len(chaos.faults) < 4:
            sender.send(5)
    cluster.wait_in_sync(topic)
    assert sender.send() == 10
    cluster.assert_nothing_lost(sender.history, topic)
    with pytest.raises(ValueError, match="unknown kinds of faults: fire"):
        cluster.chaos(kinds=("fire",))


def test_the_timeline_has_faults_and_what_nodes_reported(cluster: Cluster, topic: str) -> None:
    began = cluster.timeline.now_s
    leader = cluster.leader(topic)
    with cluster.kill(leader):
        cluster.wait_for(lambda: cluster.leader(topic) != leader, "another leader")
    assert Sender(cluster, topic).send(3) == 3
    story = cluster.story(began)
    assert f"kill node {leader}" in story
    assert f"leader.elected topic={topic}" in story
    assert f"isr.changed topic={topic}" in story
    assert f"committed {topic}-0 offsets 0 to 2: acks=all is acknowledged" in story


# --- clusters of their own --------------------------------------------------------------------------------------


def test_data_in_a_folder_survives_the_cluster(tmp_path: Path) -> None:
    with Cluster(nodes=1, data=tmp_path) as first:
        first.create_topic("kept")
        Sender(first, "kept").send(3)
        with pytest.raises(UnsupportedFault, match="data in memory"):
            first.lose_power(1)
        first.restart(1, kill=True)
        assert len(first.records("kept")) == 3


async def test_async_with_leaves_the_callers_loop_free() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(tick())
    async with Cluster(nodes=1) as cluster:
        before = ticks
        assert await cluster.until(lambda: cluster.bootstrap)
        assert ticks >= before
    task.cancel()
    assert ticks > 0


def test_wrong_uses_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Cluster(nodes=0)
    idle = Cluster(nodes=1)
    with pytest.raises(RuntimeError, match="does not run"):
        _ = idle.bootstrap
    with Cluster(nodes=1) as cluster:
        with pytest.raises(ValueError, match="there is no node 9; the nodes are"):
            cluster.kill(9)
        with pytest.raises(RuntimeError, match="runs already"):
            cluster.start()


def test_many_clusters_leave_nothing_behind() -> None:
    """In a process where nothing else comes and goes. The soak starts 200, and watches memory as well."""
    program = "from tests.unit.testing.leftovers import check; check(clusters=5)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- what a failing test shows ----------------------------------------------------------------------------------


def test_an_error_in_the_block_has_the_timeline_as_a_note() -> None:
    with pytest.raises(ValueError, match="no node 9") as raised, Cluster(nodes=1) as cluster:
        cluster.kill(9)
    assert "broker.unfenced" in "".join(raised.value.__notes__)
    with pytest.raises(AssertionError, match="what happened") as raised_here, Cluster(nodes=1) as cluster:
        cluster.wait_for(lambda: cluster.restart(1), "nothing", timeout_s=0.01)
    assert not hasattr(raised_here.value, "__notes__"), "it has said so itself"


def test_logs_of_clients_pass_and_those_of_nodes_do_not(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    ours = logging.getLogger("rookery.client.sample")
    cluster.restart(3)
    ours.info("quiet")
    ours.warning("loud")
    assert [record.getMessage() for record in caplog.records] == ["loud"]
    with caplog.at_level(logging.DEBUG, ours.name):
        ours.debug("asked for")
    assert caplog.messages[-1] == "asked for"
    assert "node.stopping" in cluster.story(), "that is where they are"


def test_one_fault_that_cannot_be_undone_keeps_no_other(cluster: Cluster) -> None:
    first, last = cluster.kill(1), cluster.kill(3)
    broken = cluster.slow(2, ms=1)
    undo, broken._undo = broken._undo, _refused  # type: ignore[assignment]
    with pytest.raises(ExceptionGroup, match="could not be undone"):
        cluster.undo_all()
    assert not first.lasts
    assert not last.lasts
    assert all(map(cluster.nodes.is_up, cluster.ids))
    assert undo is not None
    undo()


def test_a_topic_is_known_everywhere_and_the_majority_is_asked(cluster: Cluster) -> None:
    assert isinstance(cluster.nodes, EmbeddedNodes)
    for number in range(5):
        cluster.create_topic(f"known-{number}")
        for node in cluster.nodes.nodes.values():
            assert node.node is not None
            assert node.node.broker is not None
            assert node.node.broker.view.image.topic(f"known-{number}") is not None
    with cluster.partition([1], [2, 3]):
        assert cluster.nodes.connected == [2, 3]
        with cluster.partition([2], [3]):
            assert cluster.nodes.connected == [1]
        cluster.create_topic("while-cut")
    with cluster.partition([1], [2]):
        assert cluster.nodes.connected == [1, 2, 3], "by way of node 3"
    with cluster.pause(1), cluster.kill(2):
        assert cluster.nodes.connected == [3]


@pytest.mark.parametrize("options", [{}, {"flush.messages": 1}])
def test_what_was_not_synced_is_gone_with_the_power(options: dict[str, int]) -> None:
    with Cluster(nodes=1) as cluster:
        cluster.create_topic("t", config=options)
        sender = Sender(cluster, "t")
        assert sum(sender.send(20) for _ in range(10)) == 200
        with cluster.lose_power(1):
            assert not cluster.nodes.is_up(1)
        kept = [record.value for record in cluster.records("t")]
    sent = sender.history.sent[0]
    assert kept == sent[: len(kept)]
    assert (len(kept) == len(sent)) == bool(options), "all of it is left, and only if it was synced"


async def test_faults_are_undone_beside_the_callers_loop() -> None:
    async with Cluster(nodes=1) as cluster:
        async with cluster.kill(1) as fault:
            assert not cluster.nodes.is_up(1)
        assert not fault.lasts
        async with cluster.chaos(seed=1, kinds=("kill",), lasting_s=(0, 0), between_s=(0, 0)) as chaos:
            assert await cluster.until(lambda: len(chaos.faults) > 1, "two faults")
        assert cluster.nodes.is_up(1)
