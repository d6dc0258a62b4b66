"""The keys that sign tokens are fetched over https, without redirects, and a failure heals."""

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from rookery.broker.server.jwks import Jwks
from rookery.core.clock import SystemClock
from rookery.core.config.options import ConfigError
from rookery.core.security.oauthbearer import KeyRefresh, OAuthBearerClient, TokenRules
from rookery.core.security.sasl import Challenge, Done
from tests.certificates import Authority

TIMEOUT_S = 10.0
NOW_MS = SystemClock().wall_ms()
KEYS = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("old", "new")}


def document(*names: str) -> bytes:
    keys = [
        {**json.loads(ECAlgorithm.to_jwk(KEYS[name].public_key())), "kid": name, "alg": "ES256"} for name in names
    ]
    return json.dumps({"keys": keys}).encode()


def token(key: str) -> str:
    claims = {"sub": "ann", "iat": NOW_MS // 1000, "exp": NOW_MS // 1000 + 600}
    return jwt.encode(claims, KEYS[key], "ES256", headers={"kid": key})


class Issuer:
    """An https server whose answer a test sets."""

    def __init__(self, authority: Authority) -> None:
        self.status, self.body, self.asked = 200, document("old"), 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                self.send_response(issuer.status)
                if issuer.status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(issuer.body)))
                self.end_headers()
                self.wfile.write(issuer.body)

            def log_message(self, *_: Any) -> None:
                """Tests are silent."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(authority.issue("issuer", "127.0.0.1")))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}/keys"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def issuer(authority: Authority) -> Iterator[Issuer]:
    running = Issuer(authority)
    yield running
    running.server.shutdown()
    running.server.server_close()


def jwks_of(issuer: Issuer, authority: Authority) -> Jwks:
    trusting = ssl.create_default_context(cafile=str(authority.path))
    return Jwks(issuer.url, TokenRules(), KeyRefresh(retry_ms=10, retry_max_ms=50), SystemClock(), lambda: trusting)


def outcome(jwks: Jwks, key: str) -> object:
    return jwks.begin().step(OAuthBearerClient(token(key)).first(), NOW_MS)


async def until(jwks: Jwks, key: str) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not isinstance(outcome(jwks, key), Done):
            await asyncio.sleep(0.01)


async def test_tokens_are_taken_once_the_keys_are_there_and_a_new_key_is_fetched_early(
    issuer: Issuer, authority: Authority
) -> None:
    assert isinstance(outcome(jwks_of(issuer, authority), "old"), Challenge), "without keys nobody gets in"
    jwks = jwks_of(issuer, authority)
    serving = asyncio.create_task(jwks.serve())
    async with asyncio.timeout(TIMEOUT_S):
        while not jwks.keys.keys:
            await asyncio.sleep(0.01)
    assert isinstance(outcome(jwks, "old"), Done)
    issuer.body = document("old", "new")
    await until(jwks, "new")
    assert issuer.asked == 2
    serving.cancel()


@pytest.mark.parametrize("status", [302, 404, 500])
@pytest.mark.attack(31)
async def test_a_failure_is_tried_again_and_heals(issuer: Issuer, authority: Authority, status: int) -> None:
    issuer.status = status
    jwks = jwks_of(issuer, authority)
    serving = asyncio.create_task(jwks.serve())
    async with asyncio.timeout(TIMEOUT_S):
        while issuer.asked < 2:
            await asyncio.sleep(0.01)
    assert isinstance(outcome(jwks, "old"), Challenge)
    issuer.status = 200
    await until(jwks, "old")
    serving.cancel()


async def test_a_server_that_is_not_trusted_gives_no_keys(
    issuer: Issuer, authority: Authority, tmp_path: Path
) -> None:
    jwks = jwks_of(issuer, Authority(tmp_path / "stranger"))
    serving = asyncio.create_task(jwks.serve())
    await asyncio.sleep(0.2)  # time for some attempts
    assert isinstance(outcome(jwks, "old"), Challenge)
    assert issuer.asked == 0
    serving.cancel()


def test_only_https_is_taken(issuer: Issuer, authority: Authority) -> None:
    for url in ("http://idp/keys", "file:///etc/keys", "https://"):
        with pytest.raises(ConfigError, match="https"):
            Jwks(url, TokenRules(), KeyRefresh(), SystemClock(), ssl.create_default_context)
