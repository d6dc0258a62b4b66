"""The Dockerfile: what it promises can be read off it without an engine."""

import json
import os
import re
import subprocess

from tests.unit.deploy.compose import DEPLOY

LINES = [
    line
    for line in re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text()).splitlines()
    if line and not line.startswith("#")
]
LAST_STAGE = LINES[max(place for place, line in enumerate(LINES) if line.startswith("FROM ")) :]


def instruction(name: str) -> str:
    (found,) = [line for line in LAST_STAGE if line.startswith(name + " ")]
    return found.removeprefix(name + " ")


def test_the_base_image_and_python_are_arguments() -> None:
    assert LINES[0] == "ARG BASE=python:3.13-slim"
    assert [line for line in LINES if line.startswith("FROM")] == ["FROM ${BASE} AS build", "FROM ${BASE}"]
    assert "ARG PYTHON=python3" in LINES


def test_a_node_runs_as_nobody_special_on_a_volume() -> None:
    assert instruction("USER") == "1000:1000"
    assert instruction("VOLUME") == "/var/lib/rookery"
    assert instruction("STOPSIGNAL") == "SIGTERM"


def test_the_process_is_the_node_itself() -> None:
    """In exec form: a shell in between would keep SIGTERM to itself."""
    assert json.loads(instruction("ENTRYPOINT"))[:2] == ["rookery", "node"]


def test_the_health_check_asks_for_the_configuration_the_node_runs_with() -> None:
    command = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    entry = json.loads(instruction("ENTRYPOINT"))
    assert command[0] == "python"
    assert command[-2:] == entry[-2:]


def test_the_builder_without_buildkit_understands_it() -> None:
    text = "\n".join(LINES)
    assert "--mount" not in text
    assert "<<" not in text
    assert "# syntax" not in (DEPLOY / "Dockerfile").read_text()


def test_scripts_are_sound() -> None:
    for script in (DEPLOY / "gather-wheels", DEPLOY.parent / ".ci" / "docker-engine"):
        assert os.access(script, os.X_OK)
        subprocess.run(["bash", "-n", str(script)], check=True)
