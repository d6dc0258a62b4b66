"""`rookery node --format --add-scram`: a node that nobody enters without a password has a user from its first start."""

import json
from pathlib import Path
from typing import Any

import pytest

from rookery import Admin, AuthenticationError
from rookery.client.cli.__main__ import main
from rookery.core import first_users
from tests.cluster.lone_node import lone_properties, node_process
from tests.ports import free_ports

PASSWORD = "a-password-for-the-first"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def secured(folder: Path) -> tuple[Path, str]:
    """The file of a node, and its address."""
    between, clients, control = free_ports(3)
    config = lone_properties(
        folder,
        **{
            "listeners": (
                f"BETWEEN://127.0.0.1:{between},CLIENTS://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{control}"
            ),
            "listener.security.protocol.map": "BETWEEN:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BETWEEN",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:admin;User:ANONYMOUS",
        },
    )
    return config, f"127.0.0.1:{clients}"


@pytest.mark.row(145)
async def test_the_first_user_logs_in_and_makes_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, address = secured(tmp_path)
    users = [
        *("--add-scram", f"SCRAM-SHA-512=[name=admin,password={PASSWORD}]"),
        *("--add-scram", f"SCRAM-SHA-256=[name=admin,password={PASSWORD},iterations=8192]"),
    ]
    assert main(["node", "--format", "--config", str(config), *users]) == 0
    assert "a new cluster begins with the users admin" in capsys.readouterr().out
    file = next((tmp_path / "data").rglob(first_users.FILE))
    assert file.stat().st_mode & 0o777 == 0o600
    assert [row["iterations"] for row in json.loads(file.read_text())] == [4096, 8192]
    assert PASSWORD not in file.read_text()
    assert main(["node", "--format", "--config", str(config), *users]) != 0
    assert "is formatted already" in capsys.readouterr().err

    login: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_username": "admin",
        "sasl_password": PASSWORD,
    }
    with node_process(config):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            async with Admin(**login, sasl_mechanism=mechanism) as admin:
                assert [user.name for user in await admin.describe_users()] == ["admin"]
        with pytest.raises(AuthenticationError):
            await Admin(**{**login, "sasl_password": "wrong"}, sasl_mechanism="SCRAM-SHA-512").start()
    for path in (tmp_path / "data").rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path
    assert PASSWORD not in config.with_suffix(".log").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--add-scram", "SCRAM-SHA-512=[name=admin,password=hush]"], "--format is needed"),
        (["--format", "--add-scram", "SCRAM-SHA-1=[name=admin,password=hush]"], "SCRAM-SHA-256"),
        (["--format", "--add-scram", "SCRAM-SHA-512=[name=admin,pasword=hush]"], "is none of name, password"),
        (["--format", "--add-scram", "SCRAM-SHA-512=[name=admin,password=hush,iterations=1]"], "4096"),
    ],
)
def test_what_cannot_be_a_user_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    config, _ = secured(tmp_path)
    assert main(["node", "--config", str(config), *words]) != 0
    said = capsys.readouterr()
    assert says in said.err
    assert "hush" not in said.out + said.err
    assert not (tmp_path / "data").exists()
