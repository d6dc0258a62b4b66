"""Our own client at a secure node: TLS, SCRAM, users and ACLs, and what is refused."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rookery import (
    Acl,
    AclFilter,
    AclOperation,
    Admin,
    AuthenticationError,
    Consumer,
    NoBrokersError,
    Producer,
)
from rookery import ResourceType as Resource
from rookery.client.local import launcher
from rookery.core.errors import ClusterAuthorizationFailedError, TopicAuthorizationFailedError

ALICE = "User:alice"


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    """What `rookery up --secure` wrote for clients of Java: the same names work here."""
    folder = Path(tempfile.mkdtemp(prefix="rookery-secure-client-"))
    try:
        launcher.bring_up(launcher.UpRequest(folder, 1, 0, {}, False, secure=True), print)
        lines = (folder / "client.properties").read_text().splitlines()
        yield dict(line.split("=", 1) for line in lines if "=" in line)
    finally:
        launcher.bring_down(folder, print)
        shutil.rmtree(folder, ignore_errors=True)


async def test_users_and_rights(options: dict[str, Any]) -> None:
    alice = {
        "bootstrap_servers": options["bootstrap.servers"],
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": options["ssl.truststore.location"],
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": "a-long-password",
    }
    async with Admin(options) as admin, Producer(options) as producer:
        await admin.create_topic("secured", partitions=1)
        assert (await (await producer.send("secured", b"v"))).offset == 0
        await admin.upsert_user("alice", "a-long-password")
        assert "alice" in [user.name for user in await admin.describe_users()]
        rule = Acl(ALICE, AclOperation.READ, Resource.TOPIC, "secured")
        await admin.create_acls([rule])
        assert await admin.describe_acls(AclFilter(principal=ALICE)) == [rule]

        async with Consumer("secured", auto_offset_reset="earliest", **alice) as consumer:
            assert [record.value for record in await consumer.getmany(timeout_ms=30_000)] == [b"v"]
        async with Producer(**alice) as reader_only:
            with pytest.raises(ClusterAuthorizationFailedError):
                await (await reader_only.send("secured", b"not allowed"))
        async with Producer(enable_idempotence=False, **alice) as reader_only:
            with pytest.raises(TopicAuthorizationFailedError):
                await (await reader_only.send("secured", b"not allowed"))

        with pytest.raises(AuthenticationError, match="sasl_password") as refused:
            await Producer(**{**alice, "sasl_password": "wrong"}).start()
        assert refused.value.fatal
        with pytest.raises(NoBrokersError, match="security_protocol"):
            await Producer(bootstrap_servers=options["bootstrap.servers"]).start()

        assert await admin.delete_acls(AclFilter(principal=ALICE)) == [rule]
        await admin.delete_user("alice")
        assert "alice" not in [user.name for user in await admin.describe_users()]
