"""Throw-away certificates for tests, made with the openssl command."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from tests import needs

STRICT = "basicConstraints=CA:FALSE\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
"""What Python 3.13 insists on unless told otherwise."""


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        self._folder = folder
        self._openssl = needs.command("openssl", "certificates for the TLS tests")
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "ca.pem"
        self._run(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", "ca.key", "-out", "ca.pem",
        )  # fmt: skip

    def issue(self, name: str, *names: str, more: str = "", days: int = 2) -> Path:
        """A PEM file with a key and a certificate for the given DNS names and IP addresses, or others as openssl writes
        them (URI:x). `more` are lines of extensions; one of -1 days has expired."""
        kinds = [_kind(each) for each in names] or [f"DNS:{name}"]
        (self._folder / f"{name}.ext").write_text(f"{STRICT}subjectAltName={','.join(kinds)}\n{more}")
        self._run(
            "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        self._run(
            "x509", "-req", "-days", str(max(days, 1)), "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-extfile", f"{name}.ext", "-out", f"{name}.crt",
        )  # fmt: skip
        if days < 0:
            self._expire(self._folder / f"{name}.crt")
        both = self._folder / f"{name}.pem"
        both.write_text((self._folder / f"{name}.key").read_text() + (self._folder / f"{name}.crt").read_text())
        return both

    def _expire(self, path: Path) -> None:
        """Sign a certificate again as one that ended yesterday, which newer openssl commands refuse to make."""
        issued = x509.load_pem_x509_certificate(path.read_bytes())
        key = load_pem_private_key((self._folder / "ca.key").read_bytes(), None)
        assert isinstance(key, RSAPrivateKey)
        now = datetime.now(UTC)
        past = x509.CertificateBuilder(
            issuer_name=issued.issuer,
            subject_name=issued.subject,
            public_key=issued.public_key(),
            serial_number=issued.serial_number,
            not_valid_before=now - timedelta(days=2),
            not_valid_after=now - timedelta(days=1),
            extensions=list(issued.extensions),
        )
        path.write_bytes(past.sign(key, SHA256()).public_bytes(Encoding.PEM))

    def settings(self, name: str, *names: str) -> dict[str, str]:
        """The ssl.* keys of somebody with a certificate of this authority."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.issue(name, *names)),
            "ssl.truststore.location": str(self.path),
            "ssl.client.auth": "required",
        }

    def _run(self, *arguments: str) -> None:
        subprocess.run([self._openssl, *arguments], cwd=self._folder, check=True, capture_output=True)


def _kind(name: str) -> str:
    if ":" in name:
        return name
    return f"IP:{name}" if name.replace(".", "").isdigit() else f"DNS:{name}"
