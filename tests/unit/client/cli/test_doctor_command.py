"""`rookery doctor` on clusters that are broken on purpose; a dead node and a healthy cluster in test_admin_commands."""

import asyncio
import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from rookery.client.cli.__main__ import main
from rookery.client.cli.doctor import REDACTED, redacted
from rookery.testing import Cluster
from tests.certificates import Authority
from tests.cluster.local import wait_for
from tests.cluster.lone_node import lone_properties, node_process
from tests.interop.test_transaction_tools import hang
from tests.ports import free_ports
from tests.unit.client.cli.test_admin_commands import Command, commit

TOKEN = "a-token-that-nobody-guesses"
LOOKS_OFTEN = "from rookery.broker.server.tls import TlsReload; TlsReload.__init__.__defaults__ = (0.2,)"
"""For another certificate; every 10 seconds by default."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@contextmanager
def secured_node(authority: Authority, folder: Path, name: str) -> Iterator[Path]:
    """A node with TLS and the certificate of that name; properties of a client."""
    port, control = free_ports(2)
    options = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.path.parent / f"{name}.pem"),
        "ssl.truststore.location": str(authority.path),
        "ssl.client.auth": "none",
        "listeners": f"SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}",
        "security.inter.broker.protocol": "SSL",
        "rookery.http.token": TOKEN,
    }
    file = folder / "client.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.truststore.location={authority.path}\nrookery.http.token={TOKEN}\n"
        f"bootstrap.servers=127.0.0.1:{port}\n"
    )
    with node_process(lone_properties(folder, **options), first=LOOKS_OFTEN):
        yield file


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One node whose certificate ends in two days."""
    authority.issue("node", "127.0.0.1")
    with secured_node(authority, tmp_path_factory.mktemp("node"), "node") as file:
        yield file


def test_a_certificate_that_ends_and_a_bundle_without_secrets(
    secured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "report.tar.gz"
    code = main(["doctor", "--command-config", str(secured), "--bundle", str(bundle), "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert (code, [row["severity"] for row in found if row["severity"] != "note"]) == (1, ["warning"])
    assert "the certificate of broker 1 at 127.0.0.1:" in found[0]["what"]
    assert "day(s)" in found[0]["what"]
    with tarfile.open(bundle) as archive:
        files = {name: archive.extractfile(name) for name in archive.getnames()}
        texts = {name: file.read().decode() for name, file in files.items() if file is not None}
    assert {Path(name).name for name in texts} == {
        "about.json", "brokers.json", "cluster.json", "diagnoses.json", "events.json", "nodes.json",
    }  # fmt: skip
    assert "node.ready" in texts["rookery-doctor/events.json"]
    assert "rookery.http.token" in texts["rookery-doctor/brokers.json"], "that it is set is no secret"
    assert [name for name, text in texts.items() if TOKEN in text] == []


def test_a_client_without_tls_reads_what_is_wrong(secured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = secured.read_text().rpartition("bootstrap.servers=")[2].strip()
    assert main(["doctor", "--bootstrap", address]) == 3
    assert "is security.protocol right" in capsys.readouterr().out


def test_what_could_not_be_asked_is_said(
    secured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(secured.read_text().replace(TOKEN, "another"))
    assert main(["doctor", "--command-config", str(file)]) == 1
    assert re.search(r"WARNING +node 1 could not be asked: .* a token is needed", capsys.readouterr().out)


def test_a_certificate_whose_last_day_has_come(
    secured: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    """Last with this node: it has another certificate then."""

    def says(words: str) -> bool:
        return main(["doctor", "--command-config", str(secured)]) == 3 and words in capsys.readouterr().out

    authority.issue("node", "127.0.0.1", days=1)
    wait_for(lambda: says("ends in 1 day(s): no client connects from then on"), "the certificate's last day")


def test_a_certificate_that_has_expired(
    authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A running broker would not put it to use, but time passes, and nodes start again."""
    authority.issue("expired", "127.0.0.1", days=-1)
    with secured_node(authority, tmp_path, "expired") as file:
        assert main(["doctor", "--command-config", str(file)]) == 3
        assert "cannot be reached: TLS failed: certificate has expired" in capsys.readouterr().out


def test_secrets_are_taken_out_by_name() -> None:
    found = redacted({"ssl.key.password": "x", "a": [{"my.Token": "z", "b": 1}], "ssl.keystore.key": "k"})
    assert found == {"ssl.key.password": REDACTED, "a": [{"my.Token": REDACTED, "b": 1}], "ssl.keystore.key": REDACTED}
    assert redacted({"password": None}) == {"password": None}


def test_an_advertised_address_that_this_machine_cannot_reach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What newcomers meet most: the bootstrap address answers, what it sends clients to does not."""
    port, dead, other, control = free_ports(4)
    options = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},EXTERNAL://127.0.0.1:{other},CONTROLLER://127.0.0.1:{control}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{dead},EXTERNAL://127.0.0.1:{other}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    with node_process(lone_properties(tmp_path, **options)):
        assert main(["doctor", "--bootstrap", f"127.0.0.1:{port}"]) == 3
        said = capsys.readouterr().out
        assert f"broker 1 advertises 127.0.0.1:{dead}, which this machine cannot reach" in said
        assert f"this machine reaches its listener EXTERNAL at 127.0.0.1:{other}: name that with --bootstrap" in said
        assert main(["doctor", "--bootstrap", f"127.0.0.1:{other}"]) == 0
        said = capsys.readouterr().out
        assert f"listener PLAINTEXT cannot be reached from here: 127.0.0.1:{dead} of broker 1" in said


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    options = {"transaction.partition.verification.enable": "false", "unclean.leader.election.enable": "false"}
    with Cluster(nodes=3, config=options) as running:
        yield running


@pytest.fixture
def rookery(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capsys)


def test_a_group_that_nobody_reads_for_is_a_note(cluster: Cluster, rookery: Command) -> None:
    cluster.create_topic("unread")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    producer.produce("unread", b"v")
    assert producer.flush(30) == 0
    commit(cluster, "nobody", "unread", p0=0)
    said = rookery("doctor")
    assert "NOTE     group nobody: no consumer runs" in said
    assert said.splitlines()[-1] == "all is well"


def test_a_transaction_that_hangs(cluster: Cluster, rookery: Command) -> None:
    cluster.create_topic("hung", replication_factor=1)
    assert rookery.json("transaction", "hanging") == []
    asyncio.run(hang(cluster.bootstrap.split(",")[cluster.leader("hung") - 1], "hung"))
    assert "a transaction hangs in hung-0: producer" in rookery("doctor", code=3)
    (row,) = rookery.json("transaction", "hanging", code=3)
    assert (row["topic"], row["partition"], row["start-offset"]) == ("hung", 0, 0)
    rookery("transaction", "abort", "hung", "0", "--start-offset", "0", "--yes")
    assert rookery.json("transaction", "hanging") == []
    assert rookery("doctor").splitlines()[-1] == "all is well"


def test_a_clock_that_is_wrong(cluster: Cluster, rookery: Command, capsys: pytest.CaptureFixture[str]) -> None:
    """Last in this module: other clocks of the cluster need not like it."""
    (state,) = rookery.json("cluster", "describe")

    def named() -> bool:
        main(["doctor", "--bootstrap", cluster.bootstrap])
        return re.search(r"is 3[56]\d\d s ahead of this machine's", capsys.readouterr().out) is not None

    with cluster.clock_jump(state["controller"], 3_600_000):
        cluster.wait_for(named, "the clock to be named")
