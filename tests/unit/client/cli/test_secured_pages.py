"""`events` and `trace` where nodes serve their pages by HTTPS and ask for a token."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.client.cli.__main__ import main
from rookery.testing import Cluster
from tests.certificates import Authority

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    options = {
        "rookery.http.ssl.keystore.location": str(authority.issue("http", "127.0.0.1", "localhost")),
        "rookery.http.token": TOKEN,
    }
    with Cluster(nodes=1, config=options, processes=True) as running:
        running.create_topic("orders")
        yield running


def file_with(path: Path, **values: str) -> str:
    path.write_text("".join(f"rookery.http.{name.replace('_', '.')}={value}\n" for name, value in values.items()))
    return str(path)


def test_events_and_trace_with_certificate_and_token(
    cluster: Cluster, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = file_with(tmp_path / "both", token=TOKEN, ssl_truststore_location=str(authority.path))
    words = ["--bootstrap", cluster.bootstrap, "--command-config", given]
    assert main(["events", "-o", "json", *words]) == 0
    names = {row["event"] for row in json.loads(capsys.readouterr().out)}
    assert {"broker.registered", "leadership.begun"} <= names
    assert main(["events", "-o", "name", "--event", "leadership.", *words]) == 0
    assert set(capsys.readouterr().out.split()) == {"leadership.begun"}
    assert main(["trace", "orders", "0", "0", *words]) == 0
    assert "leadership.begun" in capsys.readouterr().out


def test_events_are_followed_over_https(cluster: Cluster, authority: Authority, tmp_path: Path) -> None:
    given = file_with(tmp_path / "both", token=TOKEN, ssl_truststore_location=str(authority.path))
    words = ["events", "--follow", "-o", "jsonl", "--bootstrap", cluster.bootstrap, "--command-config", given]
    with subprocess.Popen([sys.executable, "-m", "rookery.client.cli", *words], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        try:
            assert json.loads(reader.stdout.readline())["node"] == 1
        finally:
            reader.kill()


def test_what_is_missing_is_named(
    cluster: Cluster, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**values: str) -> str:
        given = file_with(tmp_path / "some", **values)
        assert main(["events", "--bootstrap", cluster.bootstrap, "--command-config", given]) == 3
        return capsys.readouterr().err

    assert "a token is needed, rookery.http.token" in refused(ssl_truststore_location=str(authority.path))
    assert "a token is needed" in refused(ssl_truststore_location=str(authority.path), token="another")
    assert "Set rookery.http.ssl.truststore.location" in refused(token=TOKEN)
    wrong = file_with(tmp_path / "wrong", ssl_truststore_location=str(tmp_path / "nothing"))
    assert main(["events", "--bootstrap", cluster.bootstrap, "--command-config", wrong]) == 2
    assert "--command-config" in capsys.readouterr().err
