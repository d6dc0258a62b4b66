"""Asks the node that runs with a configuration whether it is ready: the health check of the container image.

    python -m rookery.broker.node.probe --config FILE

Ends with 0 if it is, with 1 and the reasons if it is not. Runs every few seconds, so it imports little: an HTTP
client would take longer to load than to use.
"""

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from rookery.core.config import node, security
from rookery.core.config.listeners import parse_address
from rookery.core.config.loading import load, read_environment
from rookery.core.config.options import ConfigError, Settings
from rookery.core.config.properties import read_properties

TIMEOUT_S = 8.0
PAGE = "/readyz"
ANSWER_BYTES_MAX = 1 << 16
EVERYWHERE = ("", "0.0.0.0", "::")


def address(settings: Settings) -> tuple[str, int]:
    """Where the node says whether it is ready."""
    text = settings[node.HTTP_LISTENER]
    if not text:
        raise ConfigError(node.HTTP_LISTENER.name, text, "host:port is needed to ask the node how it is")
    host, port = parse_address(node.HTTP_LISTENER.name, text)
    return ("127.0.0.1" if host in EVERYWHERE else host), port


def not_ready(host: str, port: int, encrypted: bool = False) -> str:
    """Why the node is not ready; empty when it is."""
    try:
        answer = ask(host, port, encrypted)
    except OSError as error:
        return f"{host}:{port} does not answer: {error}"
    head, _, body = answer.partition("\r\n\r\n")
    status = head.split(maxsplit=2)[1:2]
    return "" if status == ["200"] else body.strip() or f"{host}:{port} answered {head[:100]!r}"


def ask(host: str, port: int, encrypted: bool = False) -> str:
    with _connected(host, port, encrypted) as connection:
        connection.sendall(f"GET {PAGE} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        with connection.makefile("rb") as answer:
            return answer.read(ANSWER_BYTES_MAX).decode("utf-8", "replace")


def _connected(host: str, port: int, encrypted: bool) -> socket.socket:
    made = socket.create_connection((host, port), TIMEOUT_S)
    if not encrypted:
        return made
    import ssl  # takes longer to load than all the rest

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # it asks its own node, and sends it no secret
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(made)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="probe", description="Is the node of this configuration ready?")
    parser.add_argument("--config", type=Path, required=True)
    config = parser.parse_args(argv).config
    values, _ = read_environment(os.environ)
    try:
        settings = load([("file", read_properties(config.read_text())), ("environment", values)]).settings
        where, encrypted = address(settings), bool(settings[security.HTTP_SSL_KEYSTORE_LOCATION])
    except (ConfigError, OSError) as error:
        reasons = str(error)
    else:
        reasons = not_ready(*where, encrypted)
    print(reasons or "ready")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
