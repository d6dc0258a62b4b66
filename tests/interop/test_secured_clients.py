"""Other people's clients at a cluster with every mechanism: who belongs gets in, who does not has an error at once.

Sessions last three seconds here, so whatever goes on for longer authenticates again or connects anew.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, time
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaProducer

from rookery.client.local.security import LISTENER, LocalSecurity
from rookery.core.config.properties import properties_text
from rookery.core.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from tests.cluster.local import wait_for
from tests.interop.go_programs import go_program
from tests.interop.issuer import EXPIRED, FORGED, GOOD, KINDS, SECRET
from tests.interop.secured import PASSWORDS, ROBOT, SESSION_MS, TOKENS, TOPIC, SecuredCluster, secured_cluster
from tests.interop.tools import Tools

AT_ONCE_S = 15.0
"""Far below what any of these clients waits when nobody answers, even on a busy machine."""
LONGER_S = 2.5 * SESSION_MS / 1000
REFUSED = (EXPIRED, FORGED)
FAILED = f"Authentication failed: invalid credentials with SASL mechanism {TOKENS}"
AGAIN = "kafka_server_socket_server_metrics_successful_reauthentication_total"
EXPIRED_SESSIONS = "kafka_server_socket_server_metrics_expired_connections_killed_total"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecuredCluster]:
    with secured_cluster() as running:
        yield running


# --- Go -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> LocalSecurity:
    """An authority that nobody trusts, and certificates of it."""
    made = LocalSecurity(tmp_path_factory.mktemp("strange"))
    made.prepare([], "", new=False)
    return made


@pytest.fixture(scope="module")
def go(cluster: SecuredCluster, strange: LocalSecurity) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What every attempt came to, by client, mechanism and kind; all in one process, at the same time."""
    attempts: dict[tuple[str, str, str], dict[str, Any]] = {}

    def add(client: str, mechanism: str, kind: str, **more: Any) -> None:
        attempts[client, mechanism, kind] = {
            "client": client,
            "mechanism": mechanism,
            "bootstrap": cluster.bootstrap,
            "topic": TOPIC,
            "value": f"{client} {mechanism} {kind}",
            "partition": len(attempts) % 3,
            "authority": cluster.authority,
            **more,
        }

    for client in ("kafka-go", "franz-go"):
        for mechanism in PASSWORDS:
            right = {"user": "admin", "password": cluster.password}
            add(client, mechanism, "right", **right, pauseMs=int(LONGER_S * 1000) if mechanism == "PLAIN" else 0)
            add(client, mechanism, "wrong", **{**right, "password": "wrong"})
            add(client, mechanism, "unknown user", **{**right, "user": "nobody"})
        mutual = {"bootstrap": cluster.mutual_bootstrap}
        add(client, "TLS", "right", **mutual, certificate=str(cluster.security.admin_certificate))
        add(client, "TLS", "wrong", **mutual, certificate=str(strange.admin_certificate))
        add(client, "TLS", "none", **mutual)
        add(client, "TLS", "strange cluster", **{**mutual, "authority": str(strange.authority)})
        add(client, "", "without SASL")
        add(client, "", "without TLS", authority="")
    for kind in KINDS:
        add("franz-go", TOKENS, kind, token=cluster.issuer.token(kind))
    text = "".join(json.dumps(attempt) + "\n" for attempt in attempts.values())
    done = subprocess.run([go_program("secured")], input=text, capture_output=True, text=True, timeout=120, check=True)
    return dict(zip(attempts, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.row(145)
@pytest.mark.parametrize("client", ["kafka-go", "franz-go"])
def test_go_clients_with_the_right_password_certificate_or_token(go: Any, client: str) -> None:
    right = {key: done for key, done in go.items() if key[0] == client and key[2] in ("right", GOOD)}
    assert len(right) == (4 if client == "kafka-go" else 5)
    for key, done in right.items():
        assert (done["error"], done["read"]) == ("", " ".join(key)), key


@pytest.mark.row(145)
@pytest.mark.parametrize("client", ["kafka-go", "franz-go"])
def test_go_clients_are_refused_at_once(go: Any, client: str) -> None:
    refused = {key: done for key, done in go.items() if key[0] == client and key[2] not in ("right", GOOD)}
    assert len(refused) == (11 if client == "kafka-go" else 13)
    for key, done in refused.items():
        assert done["error"], key
        assert not done["late"], (key, done)
        assert done["seconds"] < AT_ONCE_S, (key, done)


def test_go_clients_say_that_the_certificate_is_refused(go: Any) -> None:
    for client in ("kafka-go", "franz-go"):
        assert "unknown certificate authority" in go[client, "TLS", "wrong"]["error"]
        assert "certificate required" in go[client, "TLS", "none"]["error"]


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_go_clients_say_that_the_login_failed(go: Any, mechanism: str) -> None:
    for kind in ("wrong", "unknown user"):
        assert "SASL Authentication failed" in go["kafka-go", mechanism, kind]["error"]
        assert "SASL_AUTHENTICATION_FAILED" in go["franz-go", mechanism, kind]["error"]


# --- passwords, with the clients of other languages -----------------------------------------------------------------

WRONG = "Authentication failed: invalid credentials with SASL mechanism"


def with_password(cluster: SecuredCluster, mechanism: str, password: str) -> dict[str, Any]:
    return cluster.librdkafka(sasl_mechanism=mechanism, sasl_username="admin", sasl_password=password)


@pytest.mark.row(145)
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_librdkafka_with_a_password(cluster: SecuredCluster, mechanism: str) -> None:
    admin = AdminClient(with_password(cluster, mechanism, cluster.password))
    assert TOPIC in admin.list_topics(timeout=30).topics
    errors: list[KafkaError] = []
    config: dict[str, Any] = {**with_password(cluster, mechanism, "wrong"), "error_cb": errors.append}
    admin = AdminClient(config)
    begun = monotonic()
    while not errors and monotonic() < begun + AT_ONCE_S:
        admin.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert f"{WRONG} {mechanism}" in errors[0].str()


@pytest.mark.row(145)
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_java_with_a_password(cluster: SecuredCluster, tools: Tools, tmp_path: Path, mechanism: str) -> None:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    ends = {}
    for password in (cluster.password, "wrong"):
        file = tmp_path / f"{password}.properties"
        properties = {
            "security.protocol": LISTENER,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": cluster.authority,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="admin" password="{password}";',
        }
        file.write_text(properties_text(properties))
        words = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(file), "--list")
        begun = monotonic()
        ends[password] = tools.call("kafka-topics", *words)
        assert monotonic() - begun < AT_ONCE_S
    assert TOPIC in ends[cluster.password].out.split()
    assert ends["wrong"].code != 0
    assert f"{WRONG} {mechanism}" in ends["wrong"].out


def failure_of(program: str) -> str:
    """What a program that fails at once prints. A process of its own: clients that are refused leave sockets open."""
    begun = monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert monotonic() - begun < AT_ONCE_S
    return done.stderr


def in_python(cluster: SecuredCluster, mechanism: str) -> dict[str, Any]:
    return {
        "security_protocol": LISTENER,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "admin",
        "sasl_plain_password": cluster.password,
    }


AIOKAFKA = """
import asyncio
from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
async def main():
    await AIOKafkaProducer(ssl_context=create_ssl_context(cafile={authority!r}), **{options!r}).start()
asyncio.run(main())
"""


@pytest.mark.row(145)
@pytest.mark.parametrize("mechanism", PASSWORDS)
async def test_aiokafka_with_a_password(cluster: SecuredCluster, mechanism: str) -> None:
    options = {**in_python(cluster, mechanism), "bootstrap_servers": cluster.bootstrap}
    context = create_ssl_context(cafile=cluster.authority)
    async with AIOKafkaProducer(ssl_context=context, **options) as producer:
        assert (await producer.send_and_wait(TOPIC, b"of aiokafka", partition=0)).offset >= 0
    wrong = {**options, "sasl_plain_password": "wrong"}
    program = AIOKAFKA.format(authority=cluster.authority, options=wrong)
    assert f"{WRONG} {mechanism}" in await asyncio.to_thread(failure_of, program)


@pytest.mark.row(145)
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_kafka_python_with_a_password(cluster: SecuredCluster, mechanism: str) -> None:
    servers = cluster.bootstrap.split(",")
    options = {**in_python(cluster, mechanism), "bootstrap_servers": servers, "ssl_cafile": cluster.authority}
    producer = KafkaProducer(**options)
    assert producer.send(TOPIC, b"of kafka-python", partition=1).get(30).offset >= 0
    producer.close()
    wrong = {**options, "sasl_plain_password": "wrong", "bootstrap_timeout_ms": 3000}
    failed = failure_of(f"from kafka import KafkaProducer; KafkaProducer(**{wrong!r})")
    assert "KafkaTimeoutError" in failed, "it tries again until its own time is over"


# --- certificates, with the clients of other languages ---------------------------------------------------------------


@pytest.mark.row(145)
def test_librdkafka_with_a_certificate(cluster: SecuredCluster, strange: LocalSecurity) -> None:
    def config(own: LocalSecurity, **other: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": cluster.mutual_bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": cluster.authority,
            "ssl.certificate.location": str(own.admin_certificate),
            "ssl.key.location": str(own.admin_certificate),
            "log_level": 0,
            **other,
        }

    assert TOPIC in AdminClient(config(cluster.security)).list_topics(timeout=30).topics
    errors: list[KafkaError] = []
    admin = AdminClient(config(strange, error_cb=errors.append))
    begun = monotonic()
    while not errors and monotonic() < begun + AT_ONCE_S:
        admin.poll(0.1)
    assert errors[0].code() in (KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN), errors


@pytest.mark.row(145)
def test_java_with_a_certificate(
    cluster: SecuredCluster, strange: LocalSecurity, tools: Tools, tmp_path: Path
) -> None:
    ends = []
    for own in (cluster.security, strange):
        file = tmp_path / "client.properties"
        properties = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": cluster.authority,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(own.admin_certificate),
            "default.api.timeout.ms": "10000",
            "request.timeout.ms": "5000",
        }
        file.write_text(properties_text(properties))
        words = ("--bootstrap-server", cluster.mutual_bootstrap, "--command-config", str(file), "--list")
        begun = monotonic()
        ends.append(tools.call("kafka-topics", *words))
        assert monotonic() - begun < AT_ONCE_S
    assert TOPIC in ends[0].out.split()
    assert ends[1].code != 0


def in_python_with(cluster: SecuredCluster, own: LocalSecurity) -> dict[str, Any]:
    context = create_ssl_context(
        cafile=cluster.authority, certfile=str(own.admin_certificate), keyfile=str(own.admin_certificate)
    )
    return {"security_protocol": "SSL", "ssl_context": context}


@pytest.mark.row(145)
async def test_aiokafka_with_a_certificate(cluster: SecuredCluster, strange: LocalSecurity) -> None:
    servers = cluster.mutual_bootstrap
    async with AIOKafkaProducer(bootstrap_servers=servers, **in_python_with(cluster, cluster.security)) as producer:
        assert (await producer.send_and_wait(TOPIC, b"of aiokafka", partition=0)).offset >= 0
    refused = AIOKafkaProducer(bootstrap_servers=servers, **in_python_with(cluster, strange))
    begun = monotonic()
    try:
        with pytest.raises(KafkaConnectionError, match="Unable to bootstrap"):
            await refused.start()
    finally:
        await refused.stop()
    assert monotonic() - begun < AT_ONCE_S


@pytest.mark.row(145)
def test_kafka_python_with_a_certificate(cluster: SecuredCluster, strange: LocalSecurity) -> None:
    def options(own: LocalSecurity) -> dict[str, Any]:
        file = str(own.admin_certificate)
        servers = cluster.mutual_bootstrap.split(",")
        files = {"ssl_cafile": cluster.authority, "ssl_certfile": file, "ssl_keyfile": file}
        return {"bootstrap_servers": servers, "security_protocol": "SSL", **files}

    producer = KafkaProducer(**options(cluster.security))
    assert producer.send(TOPIC, b"of kafka-python", partition=1).get(30).offset >= 0
    producer.close()
    wrong = {**options(strange), "bootstrap_timeout_ms": 3000}
    failed = failure_of(f"from kafka import KafkaProducer; KafkaProducer(**{wrong!r})")
    assert "KafkaTimeoutError" in failed, "it tries again until its own time is over"


# --- between brokers ----------------------------------------------------------------------------------------------


@pytest.mark.row(145)
def test_followers_markers_and_lag_go_by_mutual_tls(cluster: SecuredCluster) -> None:
    """What brokers ask each other: copies of records, ends of transactions, ends of partitions that others lead."""
    name, count = "between-brokers", 3
    admin = AdminClient(cluster.librdkafka())
    admin.create_topics([NewTopic(name, count, count)])[name].result(30)
    partitions = admin.list_topics(name, timeout=30).topics[name].partitions
    assert len({each.leader for each in partitions.values()}) == count, "each node leads one"

    outcomes: list[object] = []
    producer = Producer(cluster.librdkafka(transactional_id=name, acks="all"))
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in partitions:
        producer.produce(name, b"committed", partition=partition, on_delivery=lambda error, _: outcomes.append(error))
    producer.commit_transaction(30)
    assert outcomes == [None] * count

    reading = {"group_id": name, "isolation_level": "read_committed", "enable_auto_commit": False}
    consumer = Consumer(cluster.librdkafka(**reading))
    consumer.assign([TopicPartition(name, partition, 0) for partition in partitions])
    read = [wait_for(lambda: consumer.poll(1), "a record") for _ in range(count)]
    assert {message.partition() for message in read} == set(partitions)
    consumer.commit(asynchronous=False)

    def lag() -> float:
        return cluster.metric("kafka_consumergroup_lag_sum", consumergroup=name)

    behind = Producer(cluster.librdkafka(acks="all"))
    before = lag()
    for partition in partitions:
        for _ in range(5):
            behind.produce(name, b"not read", partition=partition)
    assert behind.flush(30) == 0
    wait_for(lambda: lag() >= before + 5 * count, "the group's lag on partitions of all nodes")
    consumer.close()
    in_sync = lambda: all(  # noqa: E731
        len(each.isrs) == count for each in admin.list_topics(name, timeout=30).topics[name].partitions.values()
    )
    wait_for(in_sync, "all replicas to be in sync")


# --- tokens ---------------------------------------------------------------------------------------------------


def librdkafka(cluster: SecuredCluster, kind: str, **other: Any) -> dict[str, Any]:
    def token(_: str) -> tuple[str, float, str, dict[str, str]]:
        return cluster.issuer.token(kind), time() + 300, ROBOT, {}

    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": LISTENER,
        "ssl.ca.location": cluster.authority,
        "sasl.mechanism": TOKENS,
        "oauth_cb": token,
        "log_level": 0,
        **other,
    }


@pytest.mark.row(145)
def test_librdkafka_authenticates_again_under_load(cluster: SecuredCluster) -> None:
    before, ended = cluster.metric(AGAIN), cluster.metric(EXPIRED_SESSIONS)
    outcomes: list[object] = []
    producer = Producer(librdkafka(cluster, GOOD, acks="all", **{"linger.ms": 0, "retries": 0}))
    until = monotonic() + LONGER_S
    sent = 0
    while monotonic() < until:
        producer.produce(TOPIC, b"under load", on_delivery=lambda error, _: outcomes.append(error))
        sent += 1
        producer.poll(0.005)
    producer.flush(30)
    assert outcomes == [None] * sent
    assert cluster.metric(AGAIN) > before
    assert cluster.metric(EXPIRED_SESSIONS) == ended


@pytest.mark.row(145)
@pytest.mark.parametrize("kind", REFUSED)
def test_librdkafka_learns_at_once_of_a_token_that_is_not_good(cluster: SecuredCluster, kind: str) -> None:
    errors: list[KafkaError] = []
    admin = AdminClient(librdkafka(cluster, kind, error_cb=errors.append))
    begun = monotonic()
    while not errors and monotonic() < begun + AT_ONCE_S:
        admin.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert FAILED in errors[0].str()


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, cluster: SecuredCluster, kind: str) -> None:
        self._cluster, self._kind = cluster, kind

    async def token(self) -> str:
        return self._cluster.issuer.token(self._kind)


def aiokafka(cluster: SecuredCluster, kind: str) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap,
        security_protocol=LISTENER,
        ssl_context=create_ssl_context(cafile=cluster.authority),
        sasl_mechanism=TOKENS,
        sasl_oauth_token_provider=Tokens(cluster, kind),
    )


@pytest.mark.row(145)
async def test_aiokafka_connects_anew_when_its_session_ends(cluster: SecuredCluster) -> None:
    async with aiokafka(cluster, GOOD) as producer:
        until = monotonic() + LONGER_S
        while monotonic() < until:
            sent = await producer.send_and_wait(TOPIC, b"of aiokafka", partition=0)
            assert sent.offset >= 0
            await asyncio.sleep(0.01)


@pytest.mark.row(145)
@pytest.mark.parametrize("kind", REFUSED)
async def test_aiokafka_learns_at_once_of_a_token_that_is_not_good(cluster: SecuredCluster, kind: str) -> None:
    """It does not look at the answer, believes to be in, and is not: its next request ends the connection."""
    producer = aiokafka(cluster, kind)
    begun = monotonic()
    try:
        with pytest.raises(KafkaConnectionError, match="Unable to bootstrap"):
            await producer.start()
    finally:
        await producer.stop()
    assert monotonic() - begun < AT_ONCE_S


KAFKA_PYTHON = """
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
class Tokens(AbstractTokenProvider):
    def token(self):
        return {token!r}
producer = KafkaProducer(sasl_oauth_token_provider=Tokens(), **{options!r})
print(producer.send({topic!r}, b"of kafka-python", partition=2).get(30).offset)
producer.close()
"""


@pytest.mark.row(145)
@pytest.mark.parametrize("kind", KINDS)
def test_kafka_python_with_a_token(cluster: SecuredCluster, kind: str) -> None:
    options = {
        "bootstrap_servers": cluster.bootstrap.split(","),
        "security_protocol": LISTENER,
        "ssl_cafile": cluster.authority,
        "sasl_mechanism": TOKENS,
        "bootstrap_timeout_ms": 30_000 if kind == GOOD else 3000,
    }
    program = KAFKA_PYTHON.format(token=cluster.issuer.token(kind), options=options, topic=TOPIC)
    if kind != GOOD:
        assert "KafkaTimeoutError" in failure_of(program), "it tries again until its own time is over"
        return
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 0


@pytest.fixture(scope="module")
def tools(cluster: SecuredCluster) -> Iterator[Tools]:
    """The Java client asks for tokens only where this property allows it."""
    running = Tools(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={cluster.issuer.tokens_url}")
    try:
        yield running
    finally:
        running.close()


def java(cluster: SecuredCluster, kind: str, folder: Path) -> str:
    """A file of properties: the client fetches its tokens from the issuer itself."""
    login = f'{OAUTHBEARER_MODULE} required clientId="{kind}" clientSecret="{SECRET}" ssl.truststore.type="PEM" '
    file = folder / f"{kind}.properties"
    file.write_text(
        properties_text(
            {
                "bootstrap.servers": cluster.bootstrap,
                "security.protocol": LISTENER,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": cluster.authority,
                "sasl.mechanism": TOKENS,
                "sasl.oauthbearer.token.endpoint.url": cluster.issuer.tokens_url,
                "sasl.login.callback.handler.class":
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.jaas.config": f'{login} ssl.truststore.location="{cluster.authority}";',
            }
        )
    )  # fmt: skip
    return str(file)


@pytest.mark.row(145)
def test_java_authenticates_again_under_load(cluster: SecuredCluster, tools: Tools, tmp_path: Path) -> None:
    before, ended = cluster.metric(AGAIN), cluster.metric(EXPIRED_SESSIONS)
    rate = 200
    count = int(LONGER_S * rate)
    printed = tools.run(
        "kafka-producer-perf-test", "--topic", TOPIC, "--num-records", str(count), "--record-size", "100",
        "--throughput", str(rate), "--producer-props", "acks=all", "retries=0", "enable.idempotence=false",
        "--command-config", java(cluster, GOOD, tmp_path),
    )  # fmt: skip
    assert f"{count} records sent" in printed.splitlines()[-1]
    assert cluster.metric(AGAIN) > before
    assert cluster.metric(EXPIRED_SESSIONS) == ended


@pytest.mark.row(145)
@pytest.mark.parametrize("kind", REFUSED)
def test_java_learns_at_once_of_a_token_that_is_not_good(
    cluster: SecuredCluster, tools: Tools, tmp_path: Path, kind: str
) -> None:
    begun = monotonic()
    config = java(cluster, kind, tmp_path)
    done = tools.call("kafka-topics", "--bootstrap-server", cluster.bootstrap, "--command-config", config, "--list")
    assert done.code != 0
    assert FAILED in done.out
    assert monotonic() - begun < AT_ONCE_S
