"""What a command imports before it does anything: most of the time that a person waits for it."""

import subprocess
import sys

import pytest

from rookery.testing import Cluster

SERVERS = ("grpc", "google.protobuf", "prometheus_client", "uvloop", "aiofiles", "immutables", "re2", "rookery.proto")
RECORDS = ("cramjam", "crc32c", "rookery.core.wire.records", "rookery.core.wire.batch")
SECURITY = ("cryptography", "jwt", "rookery.core.net.sasl", "rookery.core.net.tls", "rookery.core.net.tls_listener")
ROLES = ("rookery.broker", "rookery.controller", "rookery.testing", "rookery.client.spark", "pyspark")
TABLES = ("rookery.core.wire.api_table", "rookery.core.config.node", "rookery.core.config.loading")
NEVER = (*SERVERS, *SECURITY, *ROLES, *TABLES)


def imported(*words: str) -> list[str]:
    """The modules that a whole run of a command imports."""
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rookery.client.cli", *words],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    lines = (line for line in ended.stderr.splitlines() if line.startswith("import time:"))
    return [line.rpartition("|")[2].strip() for line in lines]


def forbidden(found: list[str], names: tuple[str, ...]) -> list[str]:
    return sorted({name for name in names for each in found if each == name or each.startswith(f"{name}.")})


def test_help_imports_hardly_more_than_the_parser() -> None:
    found = imported("--help")
    assert forbidden(found, (*NEVER, *RECORDS, "asyncio", "ssl", "rookery.core.wire", "rookery.core.net")) == []
    assert len(found) <= 100


def test_topic_list_imports_a_client_and_nothing_else() -> None:
    with Cluster(nodes=1) as cluster:
        cluster.create_topic("orders")
        found = imported("topic", "list", "--bootstrap", cluster.bootstrap)
    assert "rookery.core.net.cluster" in found
    assert forbidden(found, (*NEVER, *RECORDS)) == []
    assert len(found) <= 300


@pytest.mark.parametrize("command", ["group", "config", "partition", "cluster", "transaction", "doctor", "events"])
def test_a_command_that_asks_imports_neither_servers_nor_codecs(command: str) -> None:
    assert forbidden(imported(command, "--help"), (*NEVER, *RECORDS)) == []


def test_consume_imports_codecs_but_no_server() -> None:
    assert forbidden(imported("consume", "--help"), NEVER) == []
