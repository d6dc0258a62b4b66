"""Every command at a secure cluster, with the file for Java's clients, the one for librdkafka, or the folder alone."""

import argparse
import io
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rookery.client.cli.__main__ import COMMANDS, build_parser, main
from rookery.client.cli.finding import FOLDER
from rookery.client.local import launcher
from rookery.client.local.cluster_file import SECURITY_FOLDER, ClusterFile
from tests.ports import free_ports

FILES = ("client.properties", "librdkafka.properties")
NOT_HERE = {
    ("context", "add"): "connects to nobody",
    ("pipeline", "archive"): "starts Spark, see tests/spark",
    ("pipeline", "run"): "starts Spark, see tests/spark",
}


@dataclass(frozen=True)
class Line:
    """One call; FILE in it is `file`, which has this content."""

    words: str
    code: int = 0
    stdin: str = ""
    file: str = ""


PLAN = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}'
OFFSETS = '[{"topic": "orders", "partition": 0, "offset": 1}]'
LINES = (
    Line("topic create orders -p 1"),
    Line("topic list"),
    Line("topic describe orders"),
    Line("topic alter orders retention.ms=1000000000"),
    Line("topic add-partitions orders 2"),
    Line("produce orders -p 0 --file FILE", file="one\ntwo\n"),
    Line("consume orders -n 2 --group readers"),
    Line("topic offsets orders"),
    Line("topic copy orders copies"),
    Line("topic trim orders:0 --before 1 --yes"),
    Line("topic delete copies --yes"),
    Line("group list"),
    Line("group describe readers"),
    Line("group members readers"),
    Line("group explain readers --sample 0.1"),
    Line("group reset readers --to-earliest --yes"),
    Line("group export readers"),
    Line("group import readers FILE --yes", file=OFFSETS),
    Line("group delete-offsets readers --topic orders:0 --yes"),
    Line("group delete readers --yes"),
    Line("config get topic orders retention.ms"),
    Line("config diff topic orders"),
    Line("config set topic orders retention.ms=2000000000"),
    Line("config append topic orders cleanup.policy=compact"),
    Line("config subtract topic orders cleanup.policy=compact"),
    Line("config unset topic orders retention.ms"),
    Line("partition list"),
    Line("partition reassign --plan FILE --yes", file=PLAN),
    Line("partition verify --plan FILE", file=PLAN),
    Line("partition balance --yes"),
    Line("partition status"),
    Line("partition throttle off"),
    Line("partition cancel --yes"),
    Line("partition elect"),
    Line("transaction list"),
    Line("transaction describe nobody", code=4),
    Line("transaction producers orders 0"),
    Line("transaction hanging"),
    Line("transaction abort orders 0 --start-offset 1 --yes", code=4),
    Line("acl create --principal User:ann --operation read --resource topic --name orders"),
    Line("acl list"),
    Line("acl delete --principal User:ann --yes"),
    Line("user create ann", stdin="a-long-password\n"),
    Line("user list"),
    Line("user delete ann --yes"),
    Line("quota set --client-id loader producer_byte_rate=1000000"),
    Line("quota list"),
    Line("quota unset --client-id loader producer_byte_rate"),
    Line("bench produce -n 10 -r 1"),
    Line("bench consume --topic orders"),
    Line("bench e2e -n 2 -r 1"),
    Line("bench codecs -n 10 -r 1"),
    Line("node list"),
    Line("node describe 1"),
    Line("node drain 1 --dry-run", code=1),
    Line("node remove 9 --yes", code=4),
    Line("cluster status"),
    Line("cluster describe"),
    Line("cluster health"),
    Line("cluster watch -n 1"),
    Line("events"),
    Line("trace orders 0 1"),
    Line("doctor"),
    Line("quorum status"),
    Line("quorum log -n 1 --idle"),
    Line("quorum add-voter 1 AAAAAAAAAAAAAAAAAAAAAQ 127.0.0.1:1", code=1),
    Line("quorum remove-voter 9 AAAAAAAAAAAAAAAAAAAAAQ", code=1),
    Line("metadata dump"),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Path, ClusterFile]]:
    folder = Path(tempfile.mkdtemp(prefix="rookery-secure-commands-")) / FOLDER
    try:
        yield folder, launcher.bring_up(launcher.UpRequest(folder, 1, 0, {}, False, secure=True), print)
    finally:
        launcher.bring_down(folder, print)
        shutil.rmtree(folder.parent, ignore_errors=True)


@pytest.fixture(autouse=True)
def _no_other_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROOKERY_BOOTSTRAP", "ROOKERY_CONTROLLERS", "ROOKERY_COMMAND_CONFIG", "ROOKERY_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def connecting(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Each command that takes a file for its connections, with all its options."""
    options = {option for action in parser._actions for option in action.option_strings}
    if "--command-config" in options:
        yield path, options
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from connecting(below, (*path, name))


def all_connecting() -> dict[tuple[str, ...], set[str]]:
    return {path: options for name in COMMANDS for path, options in connecting(build_parser(name))}


def all_of_a_cluster(parser: argparse.ArgumentParser) -> Iterator[set[str]]:
    yield {option for action in parser._actions for option in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from all_of_a_cluster(below)


def test_whatever_asks_a_cluster_takes_the_file_and_is_tried_here() -> None:
    for name in COMMANDS:
        for options in all_of_a_cluster(build_parser(name)):
            assert "--command-config" in options or not options & {"--bootstrap", "--controllers", "--http"}, name
    tried = {path for line in LINES for path in (tuple(line.words.split()[:2]), tuple(line.words.split()[:1]))}
    assert {path for path in all_connecting() if path not in tried} == NOT_HERE.keys()


def test_every_command_with_the_files_of_the_cluster(
    cluster: tuple[Path, ClusterFile],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The two files in turns."""
    folder, running = cluster
    monkeypatch.chdir(tmp_path)
    options = all_connecting()
    passwords = (folder / SECURITY_FOLDER / "passwords.properties").read_text()
    secrets = [line.partition("=")[2] for line in passwords.splitlines() if not line.startswith("#")]
    assert len(secrets) == 2
    written = tmp_path / "file"
    for number, line in enumerate(LINES):
        file = FILES[number % len(FILES)]
        words = line.words.replace("FILE", str(written)).split()
        written.write_text(line.file)
        monkeypatch.setattr("sys.stdin", io.StringIO(line.stdin))
        known = options.get((words[0],)) or options[words[0], words[1]]
        controllers = ["--controllers", running.nodes[0].grpc] if "--controllers" in known else []
        assert main([*words, *controllers, "--command-config", str(folder / file)]) == line.code, capsys.readouterr()
        said = capsys.readouterr()
        assert not [secret for secret in secrets if secret in said.out + said.err], words


def test_inside_the_folder_of_the_cluster_nothing_has_to_be_named(
    cluster: tuple[Path, ClusterFile], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cluster[0].parent)
    for words in ("cluster status", "events -n 1", "quorum status", "quorum log -n 1 --idle", "metadata dump"):
        assert main(words.split()) == 0, capsys.readouterr()


def test_without_its_files_no_command_gets_in(
    cluster: tuple[Path, ClusterFile], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, running = cluster
    assert main(["topic", "list", "--bootstrap", running.bootstrap]) == 1
    assert main(["quorum", "status", "--controllers", running.nodes[0].grpc]) == 1
    assert "no controller answers" in capsys.readouterr().err
    (port,) = free_ports(1)
    monkeypatch.setenv("ROOKERY_COMMAND_CONFIG", str(cluster[0] / FILES[0]))
    assert main(["quorum", "status", "--controllers", running.nodes[0].grpc]) == 0
    assert main(["quorum", "status", "--controllers", f"127.0.0.1:{port}"]) == 1
