"""What `rookery up --secure` makes: a development authority, certificates, users, and files for clients.

All of it lies in the folder of the cluster and can be read by its owner alone. Nothing here is for production: the
authority's key lies beside the certificates it signs.
"""

import ipaddress
import os
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from rookery.client.local.cluster_file import CLIENT_PROPERTIES, SECURITY_FOLDER
from rookery.client.local.shape import CONTROLLER, HOST, NodePlan
from rookery.core import first_users
from rookery.core.config.properties import properties_text, read_properties
from rookery.core.net.tls import ADMIN_NAME, NODE_NAME
from rookery.core.security.jaas import SCRAM_MODULE
from rookery.core.security.scram import ITERATIONS_MIN, AddScram, ScramMechanism

LISTENER = "SASL_SSL"
MECHANISM = ScramMechanism.SCRAM_SHA_512
ADMIN, BROKER = "admin", "broker"
AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
RENEW_DAYS = 30
LIBRDKAFKA_PROPERTIES = "librdkafka.properties"
_PASSWORDS = "passwords.properties"


class LocalSecurity:
    """The security of one local cluster, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._cluster = folder
        self._folder = folder / SECURITY_FOLDER
        self.client_properties = folder / CLIENT_PROPERTIES

    @property
    def authority(self) -> Path:
        return self._folder / "ca.pem"

    def certificate(self, node_id: int) -> Path:
        return self._folder / f"node-{node_id}.pem"

    @property
    def admin_certificate(self) -> Path:
        """By which the quorum can be changed from outside."""
        return self._folder / f"{ADMIN_NAME}.pem"

    def prepare(self, plans: list[NodePlan], bootstrap: str, *, new: bool) -> None:
        """Make what is missing, and renew certificates that end soon. In a new cluster the users are made, too."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        self._ensure_authority()
        for plan in plans:
            self._ensure(self.certificate(plan.id), "localhost", NODE_NAME.format(plan.id))
        self._ensure(self.admin_certificate, ADMIN_NAME)
        passwords = self._passwords()
        if new:
            users = [
                first_users.record_of(AddScram(name, kind, ITERATIONS_MIN, None, password, None))
                for name, password in passwords.items()
                for kind in ScramMechanism
            ]
            for plan in plans:
                if plan.is_controller:
                    first_users.write(plan.data, users)
        self._write_client_files(bootstrap, passwords[ADMIN])

    def node_properties(self, plan: NodePlan) -> dict[str, str]:
        """What a node of a secure cluster has besides, or in place of, the properties of a plain one."""
        prefix = f"listener.name.{LISTENER.lower()}"
        return {
            "listener.security.protocol.map": f"{LISTENER}:{LISTENER},{CONTROLLER}:SSL",
            "inter.broker.listener.name": LISTENER,
            "sasl.enabled.mechanisms": ",".join(each.mechanism for each in ScramMechanism),
            "sasl.mechanism.inter.broker.protocol": MECHANISM.mechanism,
            f"{prefix}.{MECHANISM.mechanism.lower()}.sasl.jaas.config": _jaas(BROKER, self._passwords()[BROKER]),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificate(plan.id)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:{BROKER}",
        }

    # --- certificates --------------------------------------------------------------------------------------

    def _ensure_authority(self) -> None:
        key_path = self._folder / "ca.key"
        if self.authority.exists() and key_path.exists():
            return
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rookery development authority")])
        certificate = (
            _builder(name, name, key.public_key(), AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, SHA256())
        )
        write_private(key_path, _key_pem(key))
        write_private(self.authority, certificate.public_bytes(Encoding.PEM).decode())

    def _ensure(self, path: Path, *names: str) -> None:
        """A key and a certificate in one file; a new one where there is none or it ends soon."""
        if path.exists():
            ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
            if ends - datetime.now(UTC) > timedelta(days=RENEW_DAYS):
                return
        authority = x509.load_pem_x509_certificate(self.authority.read_bytes())
        authority_key = load_pem_private_key((self._folder / "ca.key").read_bytes(), None)
        assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.stem)])
        addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in (HOST, "::1")]
        certificate = (
            _builder(subject, authority.subject, key.public_key(), CERTIFICATE_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.SubjectAlternativeName([*map(x509.DNSName, names), *addresses]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
            .sign(authority_key, SHA256())
        )
        write_private(path, _key_pem(key) + certificate.public_bytes(Encoding.PEM).decode())

    # --- users ---------------------------------------------------------------------------------------------

    def _passwords(self) -> dict[str, str]:
        path = self._folder / _PASSWORDS
        if not path.exists():
            write_private(path, properties_text({name: secrets.token_urlsafe(24) for name in (ADMIN, BROKER)}))
        return read_properties(path.read_text(), str(path))

    def _write_client_files(self, bootstrap: str, password: str) -> None:
        common = {"bootstrap.servers": bootstrap, "security.protocol": LISTENER}
        mechanism = {"sasl.mechanism": MECHANISM.mechanism}
        java = {
            **common,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            **mechanism,
            "sasl.jaas.config": _jaas(ADMIN, password),
        }
        librdkafka = {
            **common,
            "ssl.ca.location": str(self.authority),
            **mechanism,
            "sasl.username": ADMIN,
            "sasl.password": password,
        }
        _keep(self.client_properties, java)
        _keep(self._cluster / LIBRDKAFKA_PROPERTIES, librdkafka)


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step; its owner alone can read it, from its first moment on."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)


def _keep(path: Path, values: Mapping[str, str]) -> None:
    """A user may have changed the password in the file: what is there stays, but for the addresses."""
    kept = read_properties(path.read_text(), str(path)) if path.exists() else {}
    write_private(path, properties_text({**values, **kept, "bootstrap.servers": values["bootstrap.servers"]}))


def _jaas(user: str, password: str) -> str:
    return f'{SCRAM_MODULE} required username="{user}" password="{password}";'


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
