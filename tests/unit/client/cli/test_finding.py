"""Which cluster a command talks to."""

from dataclasses import replace
from pathlib import Path

import pytest

from rookery.client.cli import finding
from rookery.client.cli.contexts import Contexts, read_contexts, write_contexts
from rookery.client.errors import CliError, UsageError
from rookery.client.local import cluster_file
from rookery.client.local.cluster_file import ClusterFile, RunningNode

NODES = "127.0.0.1:7000,127.0.0.1:7001"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder below one with a local cluster."""
    nodes = tuple(
        RunningNode(n, 1, 0.0, f"127.0.0.1:{6999 + n}", f"127.0.0.1:{7099 + n}", f"127.0.0.1:{7199 + n}", "d")
        for n in (1, 2)
    )
    (tmp_path / "project" / ".rookery").mkdir(parents=True)
    cluster_file.write(tmp_path / "project" / ".rookery", ClusterFile("id", NODES, nodes, 1, {}))
    below = tmp_path / "project" / "deep" / "down"
    below.mkdir(parents=True)
    return below


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a configuration of its own."""
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def configure(home: dict[str, str], text: str) -> None:
    folder = Path(home["XDG_CONFIG_HOME"]) / "rookery"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(text)


CONTEXTS = 'current = "dev"\n[contexts.dev]\nbootstrap = "dev:1"\n[contexts.prod]\nbootstrap = "prod:1"\n'


def test_what_is_named_wins_and_is_not_talked_about(
    here: Path, home: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    configure(home, CONTEXTS)
    environ = {**home, "ROOKERY_BOOTSTRAP": "named:2"}
    assert finding.bootstrap("named:1", environ, here) == "named:1"
    assert finding.bootstrap(None, environ, here) == "named:2"
    assert capsys.readouterr() == ("", "")


def test_then_the_context_then_the_nearest_cluster_then_the_default(
    here: Path, home: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finding.bootstrap(None, home, tmp_path) == "127.0.0.1:9092"
    assert "127.0.0.1:9092 (the default: no cluster was named)" in capsys.readouterr().err
    assert finding.bootstrap(None, home, here) == NODES
    assert f"{NODES} (from {tmp_path}/project/.rookery/cluster.json)" in capsys.readouterr().err
    configure(home, CONTEXTS)
    assert finding.bootstrap(None, home, here) == "dev:1"
    assert "dev:1 (context dev of" in capsys.readouterr().err
    assert finding.bootstrap(None, {**home, "ROOKERY_CONTEXT": "prod"}, here) == "prod:1"


def test_controllers_are_found_the_same_way(here: Path, home: dict[str, str], tmp_path: Path) -> None:
    assert finding.controllers(None, home, here) == "127.0.0.1:7100", "the second node is no controller"
    assert finding.controllers(None, home, tmp_path) == "127.0.0.1:9192"
    assert finding.controllers(None, {**home, "ROOKERY_CONTROLLERS": "c:1"}, here) == "c:1"
    configure(home, CONTEXTS)
    assert finding.controllers(None, home, here) == "127.0.0.1:7100", "the context says nothing of controllers"


def test_the_file_for_controllers_is_found_where_they_are(here: Path, home: dict[str, str], tmp_path: Path) -> None:
    project = here.parents[1] / finding.FOLDER
    plain = cluster_file.read(project)
    assert plain is not None
    assert finding.controllers_file(None, None, home, here) is None
    cluster_file.write(project, replace(plain, secure=True))
    assert finding.controllers_file(None, None, home, here) == project / "client.properties"
    assert finding.controllers_file("c:1", None, home, here) is None, "those are of another cluster"
    assert finding.controllers_file("c:1", Path("named"), home, here) == Path("named")
    variable = {**home, "ROOKERY_COMMAND_CONFIG": "/of/variable"}
    assert finding.controllers_file("c:1", None, variable, here) == Path("/of/variable")
    configure(home, CONTEXTS + '[contexts.far]\ncontrollers = "far:1"\ncommand-config = "/of/far"\n')
    assert finding.controllers_file(None, None, {**home, "ROOKERY_CONTEXT": "far"}, here) == Path("/of/far")
    assert finding.controllers_file(None, None, home, here) == project / "client.properties", "as the controllers"


def test_mistakes_are_explained(here: Path, home: dict[str, str]) -> None:
    configure(home, CONTEXTS)
    with pytest.raises(UsageError, match=r"ROOKERY_CONTEXT=typo: .* has no \[contexts.typo\]"):
        finding.bootstrap(None, {**home, "ROOKERY_CONTEXT": "typo"}, here)
    (Path(home["XDG_CONFIG_HOME"]) / "rookery" / "config.toml").write_text("current = ")
    with pytest.raises(CliError, match=r"config\.toml cannot be read"):
        finding.bootstrap(None, home, here)


def test_names_of_contexts_may_have_dots(here: Path, home: dict[str, str]) -> None:
    named = Contexts("kafka.eu-1", {"kafka.eu-1": {"bootstrap": "eu:1"}, "dev": {"bootstrap": "dev:1"}})
    write_contexts(home, named)
    assert read_contexts(home) == named
    assert finding.bootstrap(None, home, here) == "eu:1"


def test_a_name_with_dots_and_no_quotes_is_refused_with_the_right_spelling(home: dict[str, str]) -> None:
    configure(home, '[contexts.kafka.eu]\nbootstrap = "eu:1"\n')
    with pytest.raises(CliError, match=r'write \[contexts."kafka.eu"\]'):
        read_contexts(home)
