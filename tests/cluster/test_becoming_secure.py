"""docs/security.md, "From a plain cluster to a secure one, without downtime": three rolling restarts under load."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import grpc
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from rookery.client.local import launcher, processes
from rookery.client.local.cluster_file import SECURITY_FOLDER, ClusterFile
from rookery.client.local.security import LocalSecurity
from rookery.client.local.shape import CONTROLLER, HOST, Shape
from rookery.core.config.properties import read_properties
from rookery.proto import raft_pb2
from rookery.proto.raft_pb2_grpc import RaftStub
from tests.cluster.local import wait_for
from tests.cluster.quorum import free_ports

TOPIC = "kept"
NODES = 3


class Becoming:
    """A plain cluster whose nodes are restarted with other properties, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file: ClusterFile = launcher.bring_up(launcher.UpRequest(folder, NODES, 0, {}, False), print)
        self.shape = Shape(self.file.cluster_id, folder, self.file.port(), NODES, self.file.controllers)
        self.secure_ports = dict(zip((1, 2, 3), free_ports(NODES), strict=True))
        self.secure_bootstrap = ",".join(f"{HOST}:{port}" for port in self.secure_ports.values())
        self.security = LocalSecurity(folder)
        self.security.prepare(self.shape.plans(), self.secure_bootstrap, new=False)
        self.passwords = read_properties((folder / SECURITY_FOLDER / "passwords.properties").read_text())
        self.pids = {node.id: (node.pid, node.started) for node in self.file.nodes}
        self.admin = AdminClient({"bootstrap.servers": self.file.bootstrap, "log_level": 0})

    def secure_client(self) -> dict[str, Any]:
        properties = read_properties((self.folder / "librdkafka.properties").read_text())
        return {**properties, "bootstrap.servers": self.secure_bootstrap, "log_level": 0}

    def make_users(self) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        for name, password in self.passwords.items():
            made = UserScramCredentialUpsertion(name, info, password.encode())
            self.admin.alter_user_scram_credentials([made])[name].result(30)

    def roll(self, *, controllers: str, inter_broker: str, plain_listener: bool, authorizer: bool) -> None:
        for plan in self.shape.plans():
            listeners = [f"SECURE://{HOST}:{self.secure_ports[plan.id]}", f"{CONTROLLER}://{HOST}:{plan.grpc_port}"]
            if plain_listener:
                listeners.append(f"PLAINTEXT://{HOST}:{plan.kafka_port}")
            login = f'username="broker" password="{self.passwords["broker"]}";'
            keys = {
                "listeners": ",".join(listeners),
                "listener.security.protocol.map": f"SECURE:SASL_SSL,PLAINTEXT:PLAINTEXT,{CONTROLLER}:SSL",
                "inter.broker.listener.name": inter_broker,
                "rookery.controller.plaintext": controllers,
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.name.secure.scram-sha-512.sasl.jaas.config": (
                    f"org.apache.kafka.common.security.scram.ScramLoginModule required {login}"
                ),
                "ssl.keystore.location": str(self.security.certificate(plan.id)),
                "ssl.truststore.location": str(self.security.authority),
            }
            if authorizer:
                keys["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
                keys["super.users"] = "User:admin;User:broker"
            node = next(each for each in self.file.nodes if each.id == plan.id)
            pid, started = self.pids[plan.id]
            self.stop(plan.id)
            plan.properties.write_text(self.shape.properties(plan, keys))
            plan.properties.chmod(0o600)
            self.pids[plan.id] = processes.start_node(plan)
            assert self.pids[plan.id] != (pid, started)
            wait_for(lambda node=node: not launcher.readiness(node), f"node {plan.id} to be ready")  # type: ignore[misc]
            client = {"bootstrap.servers": self.file.bootstrap} if plain_listener else self.secure_client()
            wait_for(lambda client=client: in_sync(client), f"all replicas to be in sync after node {plan.id}")  # type: ignore[misc]

    def stop(self, node_id: int) -> None:
        pid, started = self.pids[node_id]
        processes.send_signal(pid, started, signal.SIGTERM)

        def ended() -> bool:
            processes.reap(pid)
            return not processes.is_running(pid, started)

        wait_for(ended, f"node {node_id} to stop")


def in_sync(client: dict[str, Any]) -> bool:
    try:
        topic = AdminClient(client).list_topics(TOPIC, timeout=5).topics[TOPIC]
    except KafkaException:
        return False
    return bool(topic.partitions) and all(len(each.isrs) == NODES for each in topic.partitions.values())


@contextmanager
def load(config: dict[str, Any]) -> Iterator[list[object]]:
    """A producer that goes on while the body runs; afterwards every record has its outcome."""
    outcomes: list[object] = []
    producer, over = Producer({**config, "acks": "all", "log_level": 0}), Event()
    sent = 0

    def send() -> None:
        nonlocal sent
        while not over.is_set():
            producer.produce(TOPIC, b"x", on_delivery=lambda error, _: outcomes.append(error))
            sent += 1
            producer.poll(0.01)

    thread = Thread(target=send)
    thread.start()
    try:
        yield outcomes
    finally:
        over.set()
        thread.join()
        producer.flush(60)
    assert len(outcomes) == sent


def quorum_answers(address: str) -> bool:
    """Whether a controller answers somebody without TLS."""
    with grpc.insecure_channel(address) as channel:
        try:
            RaftStub(channel).DescribeQuorum(raft_pb2.DescribeQuorumRequest(), timeout=5)  # type: ignore[no-untyped-call]
        except grpc.RpcError:
            return False
        return True


@pytest.fixture
def cluster() -> Iterator[Becoming]:
    folder = Path(tempfile.mkdtemp(prefix="rookery-becoming-"))
    made = Becoming(folder)
    try:
        yield made
    except BaseException:
        for log in sorted(folder.glob("node-*/node.log")):
            print(f"--- {log}\n" + "\n".join(log.read_text().splitlines()[-40:]))
        raise
    finally:
        for node_id in made.pids:
            made.stop(node_id)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.row(145)
@pytest.mark.row(150)
def test_three_rolling_restarts_make_a_plain_cluster_secure_and_no_record_fails(cluster: Becoming) -> None:
    cluster.admin.create_topics([NewTopic(TOPIC, 3, NODES)])[TOPIC].result(30)
    cluster.make_users()
    addresses = [node.grpc for node in cluster.file.nodes]
    plain = {"bootstrap.servers": cluster.file.bootstrap}
    with load(plain) as outcomes:
        cluster.roll(controllers="use", inter_broker="PLAINTEXT", plain_listener=True, authorizer=False)
        with load(cluster.secure_client()) as secure_outcomes:
            cluster.roll(controllers="accept", inter_broker="SECURE", plain_listener=True, authorizer=False)
        assert all(map(quorum_answers, addresses)), "until the last step"
    assert set(outcomes) == {None}
    assert set(secure_outcomes) == {None}
    with load(cluster.secure_client()) as outcomes:
        cluster.roll(controllers="no", inter_broker="SECURE", plain_listener=False, authorizer=True)
    assert set(outcomes) == {None}
    assert not any(map(quorum_answers, addresses))
    with pytest.raises(KafkaException):
        AdminClient(plain | {"log_level": 0}).list_topics(timeout=2)
