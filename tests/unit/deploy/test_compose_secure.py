"""The secure compose file: its nodes start as they stand, with the certificates that deploy/make-certificates makes."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from rookery.broker.node.formatting import VARIABLE, add_users_of_environment
from rookery.broker.node.http_listener import http_tls
from rookery.broker.node.security import secure
from rookery.broker.node.security_checks import check_security
from rookery.broker.node.settings import load_settings
from rookery.broker.server.tls import ListenerTls
from rookery.controller.server import control_texts
from rookery.core import first_users
from rookery.core.clock import SystemClock
from rookery.core.config import node as keys
from rookery.core.config import security
from rookery.core.config.listeners import listeners_of
from rookery.core.config.loading import Loaded
from rookery.core.metadata.image import EMPTY
from rookery.core.net.tls import NODE_NAME
from tests import needs
from tests.unit.deploy.compose import DEPLOY, SECURE, environment, nodes, read

INSIDE = "/etc/rookery/certificates"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs.command("openssl", "certificates")
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run([str(DEPLOY / "make-certificates"), str(folder)], check=True, capture_output=True)
    return folder


def loaded(body: dict[str, Any], certificates: Path, data: Path) -> Loaded:
    variables = {key: value.replace(INSIDE, str(certificates)) for key, value in environment(body).items()}
    return load_settings(DEPLOY / "node.properties", {**variables, "KAFKA_LOG_DIRS": str(data)})


@pytest.mark.row(152)
@pytest.mark.parametrize("service", sorted(nodes(SECURE)))
def test_a_node_starts_secured_on_every_port(service: str, certificates: Path, tmp_path: Path) -> None:
    body = nodes(SECURE)[service]
    found = loaded(body, certificates, tmp_path)
    settings, listeners = found.settings, listeners_of(found.settings)
    assert found.warnings == ()
    assert check_security(settings) == ()
    made = secure(settings, listeners, lambda: EMPTY, "cluster", SystemClock())
    assert sorted(made.protections) == ["EXTERNAL", "INTERNAL"]
    assert all(each.tls is not None and each.sasl is not None for each in made.protections.values())
    control = control_texts(settings)
    assert control is not None
    assert control["ssl.client.auth"] == "required"
    ListenerTls("CONTROLLER", control)
    assert http_tls(settings) is not None
    assert settings[security.HTTP_TOKEN] == "ROOKERY_HTTP_TOKEN"
    assert f"{certificates}/{NODE_NAME.format(settings[keys.NODE_ID])}.pem" == settings[security.SSL_KEYSTORE_LOCATION]
    assert f"./certificates:{INSIDE}:ro" in body["volumes"]


def test_a_new_cluster_begins_with_the_users_of_the_variable(certificates: Path, tmp_path: Path) -> None:
    body = nodes(SECURE)["kafka-1"]
    add_users_of_environment(loaded(body, certificates, tmp_path).settings, {VARIABLE: environment(body)[VARIABLE]})
    assert [user.name for user in first_users.read(tmp_path)] == ["admin", "broker"]


def test_certificates_that_are_there_stay(certificates: Path) -> None:
    before = {path.name: path.read_bytes() for path in certificates.glob("*.pem")}
    assert sorted(before) == ["admin.pem", "ca.pem", "node-1.pem", "node-2.pem", "node-3.pem"]
    (certificates / "node-2.pem").unlink()
    subprocess.run([str(DEPLOY / "make-certificates"), str(certificates)], check=True, capture_output=True)
    after = {path.name: path.read_bytes() for path in certificates.glob("*.pem")}
    assert [name for name in sorted(after) if after[name] != before[name]] == ["node-2.pem"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in certificates.iterdir())


def test_besides_its_security_it_is_the_plain_cluster() -> None:
    plain, secured = nodes("compose.yaml"), nodes(SECURE)
    for service, body in plain.items():
        ours = environment(secured[service])
        other = {key for key, value in environment(body).items() if ours.get(key) != value}
        assert other == {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"}
        assert secured[service]["ports"] == body["ports"]
    assert set(read(SECURE)["volumes"]) == set(plain)
