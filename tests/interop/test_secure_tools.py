"""Kafka's own tools and clients at a secure cluster: users and ACLs are made with them, and decide."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.client.local import launcher
from rookery.core.config.properties import properties_text, read_properties
from rookery.core.security.jaas import SCRAM_MODULE
from tests.interop.tools import Tools

TOPIC = "orders"


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
    made = Path(tempfile.mkdtemp(prefix="rookery-secure-"))
    try:
        launcher.bring_up(launcher.UpRequest(made, 1, 0, {}, False, secure=True), print)
        yield made
    finally:
        launcher.bring_down(made, print)
        shutil.rmtree(made, ignore_errors=True)


@pytest.mark.row(145)
@pytest.mark.row(146)
def test_users_and_acls_are_made_with_kafkas_tools(folder: Path, tmp_path: Path) -> None:
    tools = Tools()
    try:
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

        def user(password: str) -> Shell:
            login = f'{SCRAM_MODULE} required username="ann" password="{password}";'
            file = tmp_path / f"{password}.properties"
            file.write_text(properties_text({**properties, "sasl.jaas.config": login}))
            return Shell(tools, bootstrap, file)

        ann = user("pw-ann")
        assert TOPIC not in ann("kafka-topics", "--list")
        for operation in ("--producer", "--consumer"):
            rights = ("--topic", "ord", "--resource-pattern-type", "prefixed")
            group = ("--group", "ord") if operation == "--consumer" else ()
            admin("kafka-acls", "--add", "--allow-principal", "User:ann", operation, *rights, *group)
        assert "principal=User:ann" in admin("kafka-acls", "--list")
        assert TOPIC in ann("kafka-topics", "--list").split()
        refused = user("wrong").fails("kafka-topics", "--list")
        assert "Authentication failed: invalid credentials with SASL mechanism SCRAM-SHA-512" in refused
    finally:
        tools.close()
