"""Kafka's own tools and clients at a secure cluster: users and ACLs are made with them, and decide."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from rookery.core.config.properties import properties_text, read_properties
from rookery.core.security.jaas import SCRAM_MODULE
from tests.cluster.local import wait_for
from tests.interop.tools import Tools

TOPIC = "orders"
FAILED = "Authentication failed: invalid credentials with SASL mechanism"
AT_ONCE_S = 15.0


class Shell:
    """The tools, as one user."""

    def __init__(self, tools: Tools, bootstrap: str, config: Path) -> None:
        self._tools, self._bootstrap, self._config = tools, bootstrap, str(config)

    def __call__(self, tool: str, *words: str, text: str = "") -> str:
        return self._tools.run(tool, *self._common(tool), *words, text=text)

    def fails(self, tool: str, *words: str, text: str = "") -> str:
        done = self._tools.call(tool, *self._common(tool), *words, text=text)
        return done.out + done.err

    def _common(self, tool: str) -> tuple[str, ...]:
        return "--bootstrap-server", self._bootstrap, "--command-config", self._config


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Of a cluster that was started as a user starts it."""
    made = Path(tempfile.mkdtemp(prefix="rookery-secure-"))
    try:
        rookery("up", "--secure", "--detach", "--nodes", "1", "--port", "0", "--data", str(made))
        yield made
    finally:
        rookery("down", "--data", str(made))
        shutil.rmtree(made, ignore_errors=True)


def rookery(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "rookery.client.cli", *words], check=True, timeout=120)


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    running = Tools()
    try:
        yield running
    finally:
        running.close()


@pytest.mark.row(145)
@pytest.mark.row(146)
def test_users_and_acls_are_made_with_kafkas_tools(folder: Path, tools: Tools, tmp_path: Path) -> None:
    admin_file = folder / "client.properties"
    properties = read_properties(admin_file.read_text())
    bootstrap = properties["bootstrap.servers"]
    admin = Shell(tools, bootstrap, admin_file)
    admin("kafka-topics", "--create", "--topic", TOPIC)
    both = "SCRAM-SHA-256=[password=pw-ann],SCRAM-SHA-512=[iterations=8192,password=pw-ann]"
    admin("kafka-configs", "--alter", "--add-config", both, "--entity-type", "users", "--entity-name", "ann")
    described = admin("kafka-configs", "--describe", "--entity-type", "users", "--entity-name", "ann")
    assert "SCRAM-SHA-256=iterations=4096" in described
    assert "SCRAM-SHA-512=iterations=8192" in described

    def file(password: str, mechanism: str = "SCRAM-SHA-512") -> Path:
        login = f'{SCRAM_MODULE} required username="ann" password="{password}";'
        made = tmp_path / f"{password}.properties"
        made.write_text(properties_text({**properties, "sasl.mechanism": mechanism, "sasl.jaas.config": login}))
        return made

    ann = Shell(tools, bootstrap, file("pw-ann"))
    assert TOPIC not in ann("kafka-topics", "--list")
    for operation in ("--producer", "--consumer"):
        rights = ("--topic", "ord", "--resource-pattern-type", "prefixed")
        group = ("--group", "ord") if operation == "--consumer" else ()
        admin("kafka-acls", "--add", "--allow-principal", "User:ann", operation, *rights, *group)
    assert "principal=User:ann" in admin("kafka-acls", "--list")
    assert TOPIC in ann("kafka-topics", "--list").split()

    common = ("--bootstrap-server", bootstrap, "--topic", TOPIC)
    tools.run("kafka-console-producer", *common, "--command-config", str(file("pw-ann")), text="one\ntwo\n")
    reading = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000", "--group", "orders-readers")
    read = tools.run("kafka-console-consumer", *common, *reading, "--command-config", str(file("pw-ann")))
    assert read.split() == ["one", "two"]

    begun = monotonic()
    refused = Shell(tools, bootstrap, file("wrong")).fails("kafka-topics", "--list")
    assert f"{FAILED} SCRAM-SHA-512" in refused
    assert monotonic() - begun < AT_ONCE_S

    admin("kafka-acls", "--remove", "--force", "--allow-principal", "User:ann", "--consumer", "--topic", "ord",
          "--group", "ord", "--resource-pattern-type", "prefixed")  # fmt: skip
    assert "operation=READ" not in admin("kafka-acls", "--list")
    taken = ("--alter", "--delete-config", "SCRAM-SHA-512", "--entity-type", "users", "--entity-name", "ann")
    admin("kafka-configs", *taken)
    assert f"{FAILED} SCRAM-SHA-512" in ann.fails("kafka-topics", "--list")
    other = Shell(tools, bootstrap, file("pw-ann", "SCRAM-SHA-256"))
    assert TOPIC in other("kafka-topics", "--list").split()


@pytest.mark.row(145)
def test_librdkafka_takes_its_file_as_it_is(folder: Path) -> None:
    properties = read_properties((folder / "librdkafka.properties").read_text())
    admin = AdminClient({**properties})
    admin.create_topics([NewTopic("from-librdkafka", 1, 1)])["from-librdkafka"].result(30)
    outcomes: list[object] = []
    producer = Producer({**properties, "acks": "all"})
    producer.produce("from-librdkafka", b"value", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(30)
    assert outcomes == [None]
    consumer = Consumer({**properties, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["from-librdkafka"])
    assert wait_for(lambda: consumer.poll(1), "the record").value() == b"value"
    consumer.close()
