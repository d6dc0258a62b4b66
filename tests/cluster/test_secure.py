"""`rookery up --secure`: three nodes with TLS, SCRAM and an authorizer, and clients of others that get in or do not."""

import asyncio
import shutil
import ssl
import stat
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer

from rookery.client.local import launcher
from rookery.client.local.cluster_file import CLIENT_PROPERTIES, SECURITY_FOLDER, RunningNode
from rookery.client.local.security import LIBRDKAFKA_PROPERTIES, LocalSecurity
from rookery.core.config.properties import properties_text, read_properties
from rookery.core.metrics import digest
from tests.cluster.local import wait_for

TOPIC = "hello"
RECORDS = 100
AT_ONCE_S = 8.0
TOKEN = "token-of-the-monitoring"
OPTIONS = {
    "connections.max.reauth.ms": "3000",
    "rookery.http.token": TOKEN,
    "rookery.log.level": "DEBUG",
    "rookery.metrics.hide.names": "true",
}
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


AIOKAFKA = """
import asyncio
from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
async def main():
    await AIOKafkaProducer(
        bootstrap_servers="{bootstrap}", security_protocol="SASL_SSL", sasl_mechanism="{mechanism}",
        ssl_context=create_ssl_context(cafile="{authority}"), sasl_plain_username="admin", sasl_plain_password="wrong",
    ).start()
asyncio.run(main())
"""


class Secure:
    """A running secure cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = launcher.bring_up(
            launcher.UpRequest(folder, 3, 0, OPTIONS, False, secure=True), print
        )
        self.properties = read_properties((folder / "librdkafka.properties").read_text())

    def librdkafka(self, **other: str) -> dict[str, Any]:
        return {**self.properties, "log_level": 0, **{key.replace("_", "."): value for key, value in other.items()}}

    def python(self) -> dict[str, Any]:
        """The same for clients in pure Python."""
        return {
            "bootstrap_servers": self.file.bootstrap.split(","),
            "security_protocol": "SASL_SSL",
            "sasl_plain_username": self.properties["sasl.username"],
            "sasl_plain_password": self.properties["sasl.password"],
        }

    def secrets(self) -> list[str]:
        passwords = (self.folder / SECURITY_FOLDER / "passwords.properties").read_text()
        return [*read_properties(passwords).values(), TOKEN]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Secure]:
    folder = Path(tempfile.mkdtemp(prefix="rookery-secure-"))
    try:
        running = Secure(folder)
        admin = AdminClient(running.librdkafka())
        admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(30)
        yield running
    finally:
        launcher.bring_down(folder, print)
        shutil.rmtree(folder, ignore_errors=True)


def rookery(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rookery.client.cli", *arguments],
        input=stdin, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip


@pytest.mark.row(145)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes_and_reads_replicated_records(cluster: Secure, mechanism: str) -> None:
    config = cluster.librdkafka(sasl_mechanism=mechanism)
    producer = Producer({**config, "acks": "all"})
    outcomes: list[object] = []
    for number in range(RECORDS):
        producer.produce(TOPIC, f"{mechanism} {number}".encode(), on_delivery=lambda e, _: outcomes.append(e))
    producer.flush(30)
    assert outcomes == [None] * RECORDS
    consumer = Consumer({**config, "group.id": f"readers {mechanism}", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: set[bytes] = set()
    deadline = monotonic() + 60
    while len(found) < RECORDS and monotonic() < deadline:
        values = (message.value() or b"" for message in consumer.consume(RECORDS, 1.0) if not message.error())
        found |= {value for value in values if value.startswith(mechanism.encode())}
    consumer.close()
    assert len(found) == RECORDS


@pytest.mark.row(145)
@pytest.mark.parametrize(("user", "password"), [("admin", "wrong"), ("nobody", "wrong")])
def test_librdkafka_learns_at_once_of_a_wrong_password(cluster: Secure, user: str, password: str) -> None:
    errors: list[KafkaError] = []
    config = {**cluster.librdkafka(sasl_username=user, sasl_password=password), "error_cb": errors.append}
    admin = AdminClient(config)
    begun = monotonic()
    while not errors and monotonic() - begun < AT_ONCE_S:
        admin.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "invalid credentials with SASL mechanism" in errors[0].str()


def test_without_tls_or_without_sasl_nobody_gets_in(cluster: Secure) -> None:
    for protocol in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT"):
        admin = AdminClient(cluster.librdkafka(security_protocol=protocol))
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=2)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka(cluster: Secure, mechanism: str) -> None:
    context = create_ssl_context(cafile=cluster.properties["ssl.ca.location"])
    common = {**cluster.python(), "bootstrap_servers": cluster.file.bootstrap, "ssl_context": context}
    async with AIOKafkaProducer(**common, sasl_mechanism=mechanism) as producer:
        sent = await producer.send_and_wait(TOPIC, mechanism.encode(), partition=0)
        await asyncio.sleep(4)  # longer than a session: it connects anew
        await producer.send_and_wait(TOPIC, mechanism.encode(), partition=0)
    async with AIOKafkaConsumer(TOPIC, **common, sasl_mechanism=mechanism, auto_offset_reset="earliest") as consumer:
        record = await asyncio.wait_for(consumer.getone(), 30)
        assert record.value is not None
    assert sent.offset >= 0
    program = AIOKAFKA.format(
        bootstrap=cluster.file.bootstrap, authority=cluster.properties["ssl.ca.location"], mechanism=mechanism
    )
    assert "SaslAuthenticationFailed" in await asyncio.to_thread(failure_of, program)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(cluster: Secure, mechanism: str) -> None:
    common = {**cluster.python(), "ssl_cafile": cluster.properties["ssl.ca.location"], "sasl_mechanism": mechanism}
    producer = KafkaProducer(**common)
    assert producer.send(TOPIC, mechanism.encode(), partition=1).get(30).offset >= 0
    producer.close()
    consumer = KafkaConsumer(TOPIC, **common, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    assert next(iter(consumer)).value is not None
    consumer.close()
    wrong = {**common, "sasl_plain_password": "wrong", "bootstrap_timeout_ms": 3000}
    assert "KafkaTimeoutError" in failure_of(f"from kafka import KafkaProducer; KafkaProducer(**{wrong!r})")


def failure_of(program: str) -> str:
    """What a program that fails prints. A process of its own: clients that are refused leave sockets open."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    return done.stderr


def test_commands_take_both_files(cluster: Secure) -> None:
    for name in ("client.properties", "librdkafka.properties"):
        config = ["--command-config", str(cluster.folder / name)]
        listed = rookery("topic", "list", "-o", "name", *config)
        assert listed.returncode == 0, listed.stderr
        assert TOPIC in listed.stdout.split()
        quorum = rookery("quorum", "status", "--controllers", cluster.file.nodes[0].grpc, *config)
        assert "leader" in quorum.stdout, quorum.stderr
    refused = rookery("topic", "list", "--bootstrap", cluster.file.bootstrap)
    assert refused.returncode != 0


@pytest.mark.attack(55, 60)
def test_files_with_secrets_are_for_their_owner_and_logs_have_none(cluster: Secure) -> None:
    private = [
        cluster.folder / "client.properties",
        cluster.folder / "librdkafka.properties",
        *(cluster.folder / SECURITY_FOLDER).iterdir(),
        *cluster.folder.glob("node-*/node.properties"),
        *cluster.folder.glob("node-*/first-users.json"),
        *cluster.folder.glob("node-*/__cluster_metadata-0/*.log"),
    ]
    assert len(private) > 10
    for path in private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for text in (*cluster.folder.glob("node-*/node.log"), cluster.folder / "cluster.json"):
        for secret in cluster.secrets():
            assert secret not in text.read_text(), text


@pytest.mark.attack(54)
def test_options_do_not_show_secrets(cluster: Secure) -> None:
    admin = AdminClient(cluster.librdkafka())
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    described: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(30)
    shown = "".join(str(entry.value) for entry in described.values())
    assert not any(secret in shown for secret in cluster.secrets())
    assert str(described["ssl.keystore.location"].value).endswith("node-1.pem")
    login = described["listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"]
    assert login.is_sensitive
    assert not login.value


def refused(admin: AdminClient, option: str, value: str) -> str:
    """The error that changing an option of broker 1 ends with."""
    entry = ConfigEntry(option, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    with pytest.raises(KafkaException) as error:
        admin.incremental_alter_configs([resource])[resource].result(30)
    return str(error.value)


def page(node: RunningNode, path: str) -> bytes:
    asked = urllib.request.Request(f"http://{node.http}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        found: bytes = answer.read()
        return found


@pytest.mark.attack(57)
def test_metrics_need_the_token_and_show_no_names_of_groups(cluster: Secure) -> None:
    group = "group-of-the-accountants"
    consumer = Consumer(cluster.librdkafka(group_id=group))
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
    consumer.close()

    def metrics() -> str:
        return "".join(page(node, "/metrics").decode() for node in cluster.file.nodes)

    wait_for(lambda: digest(group) in metrics(), "the group in the metrics")
    assert group not in metrics()
    for node in cluster.file.nodes:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://{node.http}/metrics", timeout=30)


PAGES = ("/", "/metrics", "/healthz?verbose", "/livez", "/readyz", "/events")
MEANT_TO_HOLD_SECRETS = {
    CLIENT_PROPERTIES,
    LIBRDKAFKA_PROPERTIES,
    launcher.PROPERTIES,
    launcher.SECRET_OPTIONS,
}


@pytest.mark.attack(54, 55, 57, 60, 61)
def test_nothing_that_the_cluster_shows_or_keeps_has_a_secret(cluster: Secure, tmp_path: Path) -> None:
    """At the log level DEBUG, after logins and changes that were taken and that were refused."""
    own, guessed, given = "password-of-eve", "guess-for-eve", "secret-of-an-option"
    shown: dict[str, bytes] = {}
    admin = AdminClient(cluster.librdkafka())
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("eve", info, own.encode())])["eve"].result(30)
    eve = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "eve"}
    assert AdminClient(cluster.librdkafka(**eve, sasl_password=own)).list_topics(timeout=30).brokers
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(properties_text({**cluster.properties, "sasl.username": "eve", "sasl.password": guessed}))
    failed = rookery("topic", "list", "--command-config", str(wrong))
    assert failed.returncode == 5
    shown["a failed login"] = (failed.stdout + failed.stderr).encode()
    for option in ("listener.name.sasl_ssl.ssl.key.password", "sasl.jaas.config", "rookery.http.token"):
        shown[f"the refusal of {option}"] = refused(admin, option, given).encode()
    for node in cluster.file.nodes:
        resource = ConfigResource(ConfigResource.Type.BROKER, str(node.id))
        described: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(30)
        assert described["rookery.http.token"].is_sensitive
        shown[f"options of {node.id}"] = "".join(f"{e.value}{e.synonyms}" for e in described.values()).encode()
        for path in PAGES:
            shown[f"{path} of {node.id}"] = page(node, path)
    for file in cluster.folder.rglob("*"):
        if file.is_file() and file.name not in MEANT_TO_HOLD_SECRETS and file.parent.name != SECURITY_FOLDER:
            shown[str(file)] = file.read_bytes()
    assert any("authentication.failed" in text.decode(errors="replace") for text in shown.values())
    assert any("authentication.succeeded" in text.decode(errors="replace") for text in shown.values()), "DEBUG"
    for secret in (*cluster.secrets(), own, guessed, given):
        assert [name for name, text in shown.items() if secret.encode() in text] == []


def test_users_are_made_and_need_rights(cluster: Secure) -> None:
    admin = AdminClient(cluster.librdkafka())
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    made = UserScramCredentialUpsertion("ann", info, b"pw of ann")
    admin.alter_user_scram_credentials([made])["ann"].result(30)
    asked: Any = admin.describe_user_scram_credentials(["ann"])
    (held,) = asked["ann"].result(30).scram_credential_infos
    assert held.mechanism == ScramMechanism.SCRAM_SHA_256
    ann = cluster.librdkafka(sasl_mechanism="SCRAM-SHA-256", sasl_username="ann", sasl_password="pw of ann")

    def knows_nothing() -> bool:
        return TOPIC not in AdminClient(ann).list_topics(timeout=10).topics

    wait_for(knows_nothing, "ann to get in on all nodes")
    producer = Producer({**ann, "message.timeout.ms": 10_000})
    outcomes: list[KafkaError | None] = []
    producer.produce(TOPIC, b"x", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(15)
    assert outcomes[0] is not None
    assert outcomes[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    gone = UserScramCredentialDeletion("ann", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([gone])["ann"].result(30)


def test_a_store_that_cannot_be_read_is_refused(cluster: Secure) -> None:
    admin = AdminClient(cluster.librdkafka())
    option = ConfigEntry(
        "listener.name.sasl_ssl.ssl.keystore.location", "/nonexistent", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[option])
    with pytest.raises(KafkaException, match="the file cannot be read"):
        admin.incremental_alter_configs([resource])[resource].result(30)


def shown(address: str) -> str:
    """The certificate that a listener shows to the next client."""
    host, _, port = address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)), timeout=10)


def shows(address: str, file: Path) -> bool:
    return shown(address).strip() in file.read_text()


def names_file(admin: AdminClient, node: int, file: Path) -> None:
    option = ConfigEntry(
        "listener.name.sasl_ssl.ssl.keystore.location", str(file), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node), incremental_configs=[option])
    admin.incremental_alter_configs([resource])[resource].result(30)


def controller_reloaded(log: Path) -> bool:
    return any("tls.reloaded" in line and "CONTROLLER" in line for line in log.read_text().splitlines())


@pytest.mark.row(149)
def test_certificates_of_all_nodes_are_exchanged_under_load(cluster: Secure) -> None:
    """Those of clients and brokers by AlterConfigs, those of controllers by their files."""
    outcomes: list[object] = []
    producer = Producer({**cluster.librdkafka(), "acks": "all", "retries": 0, "connections.max.idle.ms": 1000})
    stop = Event()

    def send() -> None:
        while not stop.is_set():
            producer.produce(TOPIC, b"under load", on_delivery=lambda error, _: outcomes.append(error))
            producer.poll(0.005)

    sending = Thread(target=send)
    sending.start()
    try:
        admin, security = AdminClient(cluster.librdkafka()), LocalSecurity(cluster.folder)
        for node, address in zip(cluster.file.nodes, cluster.file.bootstrap.split(","), strict=True):
            fresh = security.certificate(node.id).with_name(f"node-{node.id}-again.pem")
            security._ensure(fresh, "localhost", f"node-{node.id}")
            assert not shows(address, fresh)
            names_file(admin, node.id, fresh)
            wait_for(partial(shows, address, fresh), f"node {node.id} to show its new certificate")
        for node in cluster.file.nodes:
            fresh = security.certificate(node.id).with_name(f"node-{node.id}-again.pem")
            fresh.with_suffix(".copy").write_bytes(fresh.read_bytes())
            fresh.with_suffix(".copy").chmod(0o600)
            fresh.with_suffix(".copy").replace(security.certificate(node.id))
        for node in cluster.file.nodes:
            log = Path(node.data) / "node.log"
            wait_for(partial(controller_reloaded, log), f"controller {node.id} to read its file again")
        config = ["--command-config", str(cluster.folder / "client.properties")]
        assert rookery("topic", "create", "made-after-the-exchange", *config).returncode == 0
    finally:
        stop.set()
        sending.join()
    producer.flush(30)
    assert len(outcomes) > 100
    assert outcomes == [None] * len(outcomes)


def test_a_second_start_is_secure_too_and_a_plain_cluster_is_not_made_secure(cluster: Secure, tmp_path: Path) -> None:
    again = launcher.bring_up(launcher.UpRequest(cluster.folder, None, None, {}, False), print)
    assert again.secure
    assert [node.pid for node in again.nodes] == [node.pid for node in cluster.file.nodes]
