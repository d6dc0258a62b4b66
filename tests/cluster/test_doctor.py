"""`rookery doctor` on nodes that are really short of something, late, damaged or dead.

Wrong addresses, certificates, lost groups and hanging transactions are in tests/unit/client/cli/test_doctor_command.py.
"""

import json
import os
import re
import resource
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from rookery.client.cli.__main__ import main
from rookery.core.config.properties import read_properties
from rookery.testing import Cluster
from rookery.testing.faults import flip_in_file
from tests import needs
from tests.cluster.local import LocalCluster, local_cluster, wait_for
from tests.cluster.lone_node import lone_properties, node_process
from tests.unit.broker.log.volumes import SmallVolume

Doctor = Callable[[str], tuple[int, str]]
WELL, WARNED, BROKEN = 0, 1, 3


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Runs `rookery doctor` against the given brokers: its exit code, and what it says."""

    def ask(bootstrap: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["doctor", "--bootstrap", bootstrap])
        return code, capsys.readouterr().out

    return ask


def kafka_of(config: Path) -> str:
    return read_properties(config.read_text())["listeners"].split(",")[0].removeprefix("PLAINTEXT://")


def process_of(config: Path) -> dict[str, Any]:
    """What the node says of its process."""
    address = read_properties(config.read_text())["rookery.http.listener"]
    with urllib.request.urlopen(f"http://{address}/healthz?verbose", timeout=30) as answer:
        return dict(json.load(answer)["process"])


def complaints(said: str) -> list[str]:
    """The first word of every diagnosis that is more than a note."""
    return re.findall(r"^(WARNING|ERROR)", said, re.MULTILINE)


# --- one node, short of something -----------------------------------------------------------------------------


@contextmanager
def soft_limit(files: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_open_files_near_the_limit(tmp_path: Path, doctor: Doctor) -> None:
    """With many connections, so that the doctor's own find room below the limit, which is near all the same."""
    config = lone_properties(tmp_path)
    host, _, port = kafka_of(config).rpartition(":")
    with node_process(config) as pid, ExitStack() as connections:
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        for _ in range(100):
            connections.enter_context(socket.create_connection((host, int(port)), timeout=30))
        code, said = doctor(kafka_of(config))  # its connections come after the others: all are taken in
        assert (code, complaints(said), said.splitlines()[-1]) == (WELL, [], "all is well")
        used = process_of(config)["open_files"]
        low = used + used // 8
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (low, before[1]))
        code, said = doctor(kafka_of(config))
        assert (code, complaints(said)) == (WARNED, ["WARNING"])
        assert re.search(rf"node 1 has \d+ files open and may have {low}\n +raise the limit", said)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        with soft_limit(4096):
            code, said = doctor(kafka_of(config))
        assert (code, complaints(said)) == (WELL, [])
        assert "a process of this machine may open 4096 files" in said


def test_a_machine_without_memory(tmp_path: Path, doctor: Doctor) -> None:
    """Its process sees another /proc/meminfo, as in a container: nothing has to use this machine's memory up."""
    needs.root()
    needs.command("unshare", "a node sees a machine without memory")
    little, config = tmp_path / "meminfo", lone_properties(tmp_path)
    little.write_text("MemTotal:       16000000 kB\nMemFree:          100000 kB\nMemAvailable:     320000 kB\n")
    mount = f'mount --bind {little} /proc/meminfo && exec "$@"'
    with node_process(config, within=("unshare", "-m", "sh", "-c", mount, "sh")):
        code, said = doctor(kafka_of(config))
        assert (code, complaints(said)) == (WARNED, ["WARNING"])
        assert "the machine of node 1 has 2 % of its memory left" in said


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[SmallVolume]:
    small = SmallVolume(tmp_path, 40)
    try:
        yield small
    finally:
        small.close()


def test_a_disk_that_is_nearly_full_and_then_fails(tmp_path: Path, volume: SmallVolume, doctor: Doctor) -> None:
    place = volume.root / "logs"
    place.mkdir()
    config = lone_properties(tmp_path, **{"log.dirs": f"{tmp_path / 'data'},{place}"})
    with node_process(config):
        assert doctor(kafka_of(config))[0] == WELL
        ballast = volume.fill(leave=2 << 20)
        code, said = doctor(kafka_of(config))
        assert (code, complaints(said)) == (WARNED, ["WARNING"])
        assert re.search(rf"the disk of {place} on broker 1 has [56] % left", said)
        ballast.unlink()
        assert doctor(kafka_of(config))[0] == WELL
        volume.cut()

        def offline() -> bool:
            code, said = doctor(kafka_of(config))
            return code == BROKEN and f"log dir {place} of broker 1 is offline" in said

        wait_for(offline, "the log dir to be offline")


NEXT_RELEASE = """
import dataclasses
import rookery.core.metadata.features as features
one, *others = features.RELEASE.features
features.RELEASE = dataclasses.replace(
    features.RELEASE, features=(one._replace(max_version=one.max_version + 1), *others)
)
features.SUPPORTED = features.RELEASE.features
"""


def test_a_feature_that_can_be_raised_after_an_upgrade(tmp_path: Path, doctor: Doctor) -> None:
    config = lone_properties(tmp_path)
    with node_process(config):
        assert "metadata.version" not in doctor(kafka_of(config))[1]
    with node_process(config, first=NEXT_RELEASE):
        code, said = doctor(kafka_of(config))
        assert (code, complaints(said), said.splitlines()[-1]) == (WELL, [], "all is well")
        assert re.search(r"NOTE +metadata.version is 1, and this release has 2", said)


# --- two nodes, one of them unlike the other --------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with local_cluster(nodes=2) as running:
        yield running


OTHER_RELEASE = "import rookery; rookery.__version__ = '99.0'"
OTHER_CLOCK = """
import time
right, right_ns = time.time, time.time_ns
time.time, time.time_ns = lambda: right() + 600, lambda: right_ns() + 600 * 10**9
"""
OTHER_VERSIONS = """
import dataclasses
from rookery.broker.handlers.metadata import MetadataHandler
MetadataHandler.served = dataclasses.replace(MetadataHandler.served, max=MetadataHandler.served.max - 1)
"""


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (OTHER_RELEASE, r"brokers run different releases: 1 has \S+, 2 has 99.0"),
        (OTHER_CLOCK, r"the clock of node 2 is (59|60)\d s ahead of this machine's"),
        (OTHER_VERSIONS, r"brokers serve different versions of the protocol: 1 serves (\d+) APIs, 2 serves \1 APIs"),
    ],
    ids=["release", "clock", "versions"],
)
def test_a_node_that_is_unlike_the_others(pair: LocalCluster, doctor: Doctor, first: str, words: str) -> None:
    pair.stop(2)
    with node_process(Path(pair.node(2).data) / "node.properties", first=first):
        assert main(["cluster", "health", "--wait", "60", "--bootstrap", pair.bootstrap]) == 0
        code, said = doctor(pair.bootstrap)
        assert (code, complaints(said)) == (WARNED, ["WARNING"]), said
        assert re.search(rf"WARNING +{words}", said), said


# --- damage, groups and transactions ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lone() -> Iterator[Cluster]:
    options = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 600_000,
        "rookery.scrub.interval.ms": 1000,
        "rookery.scrub.bytes.per.second": 1_000_000_000,
    }
    with Cluster(nodes=1, config=options, processes=True) as running:
        yield running


def filled(cluster: Cluster, topic: str, count: int, size: int) -> None:
    """So many records, each a batch of its own."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 1, "log_level": 0})
    for _ in range(count):
        producer.produce(topic, os.urandom(size))
    assert producer.flush(30) == 0


def test_a_transaction_whose_coordinator_does_not_end_it(lone: Cluster, doctor: Doctor) -> None:
    lone.create_topic("held")
    producer = Producer(
        {"bootstrap.servers": lone.bootstrap, "transactional.id": "late", "transaction.timeout.ms": 1000}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("held", b"open")
    producer.flush(30)

    def found() -> str:
        code, said = doctor(lone.bootstrap)
        return said if code == BROKEN else ""

    said = wait_for(found, "the transaction to be named")
    assert complaints(said) == ["ERROR"]
    assert re.search(r"the transaction of late is Ongoing for \d+ s, longer than its timeout of 1 s", said)
    producer.abort_transaction(30)
    wait_for(lambda: doctor(lone.bootstrap)[0] == WELL, "the transaction to be over")


def test_a_group_that_lost_records(lone: Cluster, doctor: Doctor) -> None:
    lone.create_topic("trimmed")
    filled(lone, "trimmed", count=10, size=10)
    at = ("--bootstrap", lone.bootstrap)
    assert main(["group", "reset", "lost", "--topic", "trimmed", "--to-earliest", "--yes", *at]) == 0
    assert doctor(lone.bootstrap)[0] == WELL
    assert main(["topic", "trim", "trimmed", "--before", "6", "--yes", *at]) == 0
    code, said = doctor(lone.bootstrap)
    assert (code, complaints(said)) == (WARNED, ["WARNING"])
    assert "group lost: retention overtook it: 6 record(s) of trimmed-0 were deleted" in said


def test_a_damaged_partition(lone: Cluster, doctor: Doctor) -> None:
    """Last with this node: nobody has another copy."""
    lone.create_topic("worn", config={"segment.bytes": 1 << 20})
    filled(lone, "worn", count=12, size=200_000)
    segments = lone.nodes.replica_files(1, "worn-0")
    assert len(segments) > 1, "only closed ones are looked at"
    flip_in_file(segments[0], 500_000)
    wait_for(lambda: doctor(lone.bootstrap)[0] == BROKEN, "the damage to be named")
    assert re.search(r"ERROR +node 1: worn-0 is damaged: ", doctor(lone.bootstrap)[1])


# --- a quorum that loses its voters, one after the other --------------------------------------------------------


def test_dead_voters_and_what_they_held(
    doctor: Doctor, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With less patience than the doctor has elsewhere: 10 s for a voter, 8 s for the answer of a controller."""
    monkeypatch.setattr("rookery.client.diagnosis.QUORUM_BEHIND_S", 1.0)
    monkeypatch.setattr("rookery.client.cli.examining.QUORUM_MS", 1500)
    options = {"broker.session.timeout.ms": 1500, "broker.heartbeat.interval.ms": 300}
    with Cluster(nodes=3, config=options) as cluster:
        cluster.create_topic("alone", partitions=3, replication_factor=1)
        cluster.create_topic("strict", replication_factor=3, config={"min.insync.replicas": 3})
        cluster.create_topic("spare", replication_factor=3, config={"min.insync.replicas": 2})
        cluster.wait_in_sync("strict")
        cluster.wait_in_sync("spare")
        code, said = doctor(cluster.bootstrap)
        assert (code, complaints(said), said.splitlines()[-1]) == (WELL, [], "all is well")
        assert main(["cluster", "describe", "--bootstrap", cluster.bootstrap, "-o", "json"]) == 0
        (state,) = json.loads(capsys.readouterr().out)
        first, second = (number for number in cluster.ids if number != state["controller"])
        (held,) = (number for number in range(3) if cluster.leader("alone", number) == first)
        cluster.kill(first)

        def says(*patterns: str) -> bool:
            code, said = doctor(cluster.bootstrap)
            assert code == BROKEN, said
            missing = [words for words in patterns if not re.search(words, said)]
            assert not missing, f"{missing} not in\n{said}"
            return True

        cluster.wait_for(
            lambda: says(
                r"WARNING +bootstrap address \S+ cannot be reached: Connection refused",
                rf"ERROR +broker {first} is registered but fenced",
                rf"ERROR +1 partition\(s\) have no leader: alone-{held}",
                r"ERROR +1 partition\(s\) have fewer replicas in sync than min.insync.replicas: strict-0;",
                r"WARNING +1 partition\(s\) are under-replicated: spare-0",
            ),
            "what the dead node held to be named",
        )
        late = rf"ERROR +voter {first} of the metadata quorum has not caught up for \d+ s"
        cluster.wait_for(lambda: says(late), "the late voter to be named")
        cluster.kill(second)
        cluster.wait_for(lambda: says(r"ERROR +there is no controller: nothing can change"), "no controller")

