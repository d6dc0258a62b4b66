"""ACLs at a secure cluster of three nodes: librdkafka's admin client makes them, SCRAM users live by them, also after
all nodes were restarted."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from rookery.client.local import launcher
from rookery.core.config.properties import read_properties
from tests.cluster.local import wait_for

PASSWORD = "alices-password"
ALICE = "User:alice"


class Secure:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.up()

    def up(self) -> None:
        launcher.bring_up(launcher.UpRequest(self.folder, 3, 0, {}, False, secure=True), print)
        self.properties = read_properties((self.folder / "librdkafka.properties").read_text())
        self.admin = AdminClient(self.config())

    def config(self, user: str = "", **other: Any) -> dict[str, Any]:
        who = {"sasl.username": user, "sasl.password": PASSWORD} if user else {}
        return {**self.properties, **who, "log_level": 0, **other}

    def allow(self, *bindings: AclBinding) -> None:
        for future in self.admin.create_acls(list(bindings)).values():
            future.result(30)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Secure]:
    folder = Path(tempfile.mkdtemp(prefix="rookery-acls-"))
    try:
        running = Secure(folder)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion("alice", info, PASSWORD.encode())
        running.admin.alter_user_scram_credentials([user])["alice"].result(30)
        topics = [NewTopic(name, 1, 3) for name in ("orders-eu", "orders-us", "payments")]
        for made in running.admin.create_topics(topics).values():
            made.result(30)
        yield running
    finally:
        launcher.bring_down(folder, print)
        shutil.rmtree(folder, ignore_errors=True)


def binding(
    name: str, operation: AclOperation, type: ResourceType = ResourceType.TOPIC, *, prefixed: bool = False,
    deny: bool = False,
) -> AclBinding:  # fmt: skip
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return AclBinding(type, name, pattern, ALICE, "*", operation, permission)


def wanted(type: ResourceType, name: str | None, pattern: ResourcePatternType) -> AclBindingFilter:
    """For every principal, host, operation and permission."""
    anybody: Any = None
    return AclBindingFilter(type, name, pattern, anybody, anybody, AclOperation.ANY, AclPermissionType.ANY)  # type: ignore[arg-type]


def written(cluster: Secure, topic: str) -> int:
    """The error code of what alice writes, 0 if it was stored."""
    codes: list[int] = []
    producer = Producer(cluster.config("alice", acks="all", **{"message.timeout.ms": 20_000}))
    producer.produce(topic, b"value", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
    producer.flush(30)
    return codes[0]


def read(cluster: Secure, topic: str, group: str) -> bytes | int:
    """What alice reads first, or the code of the error that she gets."""
    consumer = Consumer(cluster.config("alice", **{"group.id": group, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    try:

        def polled() -> bytes | int | None:
            message = consumer.poll(1.0)
            if message is None:
                return None
            error = message.error()
            return (message.value() or b"") if error is None else error.code()

        found: bytes | int = wait_for(polled, "a record or an error", 60)
        return found
    finally:
        consumer.close()


def eventually(holds: Callable[[], bool], what: str) -> None:
    """The other brokers learn of an ACL a moment later than the one that was asked to make it."""
    wait_for(lambda: holds() or None, what, 30)


@pytest.mark.row(146)
def test_a_user_may_do_what_acls_allow_and_no_more(cluster: Secure) -> None:
    assert written(cluster, "orders-eu") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    cluster.allow(
        binding("orders-", AclOperation.WRITE, prefixed=True),
        binding("orders-", AclOperation.READ, prefixed=True),
        binding("billing", AclOperation.READ, ResourceType.GROUP),
    )
    eventually(lambda: written(cluster, "orders-eu") == 0, "the first write")
    assert written(cluster, "orders-us") == 0
    assert written(cluster, "payments") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert read(cluster, "orders-eu", "billing") == b"value"
    assert read(cluster, "orders-eu", "others") == KafkaError.GROUP_AUTHORIZATION_FAILED
    cluster.allow(binding("orders-us", AclOperation.WRITE, deny=True))
    eventually(lambda: written(cluster, "orders-us") == KafkaError.TOPIC_AUTHORIZATION_FAILED, "to be denied")
    assert written(cluster, "orders-eu") == 0


def test_a_user_sees_her_own_topics_and_may_not_see_acls(cluster: Secure) -> None:
    alice = AdminClient(cluster.config("alice"))
    assert set(alice.list_topics(timeout=30).topics) == {"orders-eu", "orders-us"}
    everything = wanted(ResourceType.ANY, None, ResourcePatternType.ANY)
    assert alice.describe_acls(everything).result(30) == []  # it is told the error, and drops it
    mine = binding("payments", AclOperation.ALL)
    with pytest.raises(KafkaException) as denied:
        alice.create_acls([mine])[mine].result(30)
    assert denied.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert len(cluster.admin.describe_acls(everything).result(30)) == 4


def test_acls_outlive_the_nodes(cluster: Secure) -> None:
    launcher.bring_down(cluster.folder, print)
    cluster.up()
    assert written(cluster, "orders-eu") == 0
    assert written(cluster, "payments") == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_filter_finds_what_applies_to_a_resource_and_removes_it(cluster: Secure) -> None:
    applying = wanted(ResourceType.TOPIC, "orders-us", ResourcePatternType.MATCH)
    found = cluster.admin.describe_acls(applying).result(30)
    kinds = {(each.name, each.resource_pattern_type, each.operation) for each in found}
    assert kinds == {
        ("orders-", ResourcePatternType.PREFIXED, AclOperation.WRITE),
        ("orders-", ResourcePatternType.PREFIXED, AclOperation.READ),
        ("orders-us", ResourcePatternType.LITERAL, AclOperation.WRITE),
    }
    assert len(cluster.admin.delete_acls([applying])[applying].result(30)) == 3
    eventually(lambda: written(cluster, "orders-eu") == KafkaError.TOPIC_AUTHORIZATION_FAILED, "to be denied")
