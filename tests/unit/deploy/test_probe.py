"""The health check of the image, against a server that answers as a node would."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from rookery.broker.node.probe import address, main
from rookery.core.config.loading import load
from rookery.core.config.options import ConfigError


class Node(BaseHTTPRequestHandler):
    """Ready, or not, as its server is told."""

    def do_GET(self) -> None:
        reasons = b"the broker is FENCED\n" if self.path == "/readyz" else b"no such page\n"
        ready = self.path == "/readyz" and getattr(self.server, "ready", False)
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(b"ok\n" if ready else reasons)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""


@pytest.fixture
def node() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Node) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def config(folder: Path, listener: str) -> list[str]:
    path = folder / "node.properties"
    path.write_text(f"rookery.http.listener={listener}\n")
    return ["--config", str(path)]


def test_a_ready_node_is_healthy(node: HTTPServer, tmp_path: Path) -> None:
    node.ready = True  # type: ignore[attr-defined]
    assert main(config(tmp_path, f"0.0.0.0:{node.server_port}")) == 0


def test_a_node_that_is_not_ready_says_why(
    node: HTTPServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(config(tmp_path, f"127.0.0.1:{node.server_port}")) == 1
    assert capsys.readouterr().out == "the broker is FENCED\n"


def test_a_node_that_is_not_there_is_not_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(config(tmp_path, "127.0.0.1:1")) == 1
    assert "does not answer" in capsys.readouterr().out


def test_the_environment_moves_the_port(
    node: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.ready = True  # type: ignore[attr-defined]
    monkeypatch.setenv("KAFKA_ROOKERY_HTTP_LISTENER", f"127.0.0.1:{node.server_port}")
    assert main(config(tmp_path, "127.0.0.1:1")) == 0


def test_without_a_port_there_is_nobody_to_ask() -> None:
    with pytest.raises(ConfigError, match="host:port is needed"):
        address(load([]).settings)


def test_what_listens_everywhere_is_asked_here() -> None:
    asked = {"0.0.0.0:80": ("127.0.0.1", 80), "[::1]:81": ("::1", 81), ":82": ("127.0.0.1", 82)}
    for listener, expected in asked.items():
        assert address(load([("file", {"rookery.http.listener": listener})]).settings) == expected
