"""An issuer of tokens on loopback: the keys that verify them, and a token endpoint for clients that fetch their own."""

import base64
import json
import ssl
import threading
import time
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

ISSUER = "https://issuer.test"
AUDIENCE = "rookery"
SECRET = "of-every-client"
KEY_ID = "one"
GOOD, EXPIRED, FORGED = "good", "expired", "forged"
KINDS = (GOOD, EXPIRED, FORGED)
LIFETIME_S = 300


class Issuer(AbstractContextManager["Issuer"]):
    """Serves https. A client of the token endpoint gets the kind of token that its client id names."""

    def __init__(self, certificate: Path, subject: str) -> None:
        """`certificate` is a PEM file with a key, for localhost."""
        self._certificate = certificate
        self._subject = subject
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._strange_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"https://localhost:{self._server.server_port}"
        self.tokens_given = 0
        """By the token endpoint."""

    @property
    def keys_url(self) -> str:
        return f"{self.address}/keys"

    @property
    def tokens_url(self) -> str:
        return f"{self.address}/token"

    def token(self, kind: str = GOOD, lifetime_s: float = LIFETIME_S) -> str:
        issued = int(time.time()) - (2 * LIFETIME_S if kind == EXPIRED else 0)
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": self._subject,
            "scope": "kafka",
            "iat": issued,
            "exp": issued + int(lifetime_s),
        }
        key = self._strange_key if kind == FORGED else self._key
        return jwt.encode(claims, key, "RS256", headers={"kid": KEY_ID})

    def __enter__(self) -> "Issuer":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _keys(self) -> bytes:
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return json.dumps({"keys": [{**public, "kid": KEY_ID, "use": "sig", "alg": "RS256"}]}).encode()

    def _granted(self, authorization: str, form: str) -> bytes | None:
        """The answer to a client that shows its id and secret (RFC 6749, client credentials)."""
        name, _, secret = base64.b64decode(authorization.partition(" ")[2]).decode().partition(":")
        if name not in KINDS or secret != SECRET or parse_qs(form)["grant_type"] != ["client_credentials"]:
            return None
        self.tokens_given += 1
        granted = {"access_token": self.token(name), "token_type": "Bearer", "expires_in": LIFETIME_S}
        return json.dumps(granted).encode()

    def _handler(issuer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(issuer._keys() if self.path == "/keys" else None)

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._answer(issuer._granted(self.headers["Authorization"], form) if self.path == "/token" else None)

            def _answer(self, body: bytes | None) -> None:
                self.send_response(200 if body is not None else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *words: object) -> None:
                """Nothing on standard error."""

        return Handler
