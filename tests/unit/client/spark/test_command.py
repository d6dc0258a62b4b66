"""`rookery pipeline` hands its job to Spark."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rookery.client.cli.__main__ import main
from rookery.client.spark import archive, sessions


def test_a_secured_cluster_is_reached_with_the_file_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[archive.ArchiveJob] = []
    spark: Any = SimpleNamespace(stop=lambda: None)
    monkeypatch.setattr(sessions, "open_session", lambda *_: spark)
    monkeypatch.setattr(archive, "start", lambda _, job: jobs.append(job))
    monkeypatch.setattr(archive, "watch", lambda *_: None)
    config = tmp_path / "librdkafka.properties"
    config.write_text(
        "bootstrap.servers=kafka-1:9092\nsecurity.protocol=SASL_SSL\nssl.ca.location=/ca.pem\n"
        "sasl.mechanisms=SCRAM-SHA-512\nsasl.username=ann\nsasl.password=pw\nlinger.ms=5\n"
    )
    command = ["pipeline", "archive", "orders", "out", "--command-config", str(config)]
    assert main([*command, "--option", "kafka.sasl.username=bob"]) == 0
    assert jobs[0].bootstrap == "kafka-1:9092"
    assert jobs[0].options == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.location": "/ca.pem",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "bob",
        "kafka.sasl.password": "pw",
    }
