"""Brokers with mutual TLS: each connects to the listener of the others with the stores that its own listener has."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rookery.broker.server.tls import TlsReload
from rookery.core.net.connection import Connection, ConnectionLostError
from rookery.core.net.security import Transport
from tests.certificates import Authority
from tests.unit.broker.authorization.scene import bare
from tests.unit.broker.node.test_security_checks import secured
from tests.unit.broker.server.test_secured import TIMEOUT_S, Running, running, trusting


class Stores:
    """The files of one broker."""

    def __init__(self, folder: Path) -> None:
        self.key, self.trusted = folder / "key.pem", folder / "trusted.pem"

    def put(self, *trusted: Authority, key: Path | None = None) -> None:
        if key is not None:
            self._replace(self.key, key.read_bytes())
        if trusted:
            self._replace(self.trusted, b"".join(each.path.read_bytes() for each in trusted))

    def _replace(self, path: Path, data: bytes) -> None:
        path.with_suffix(".new").write_bytes(data)
        path.with_suffix(".new").chmod(0o600)
        os.replace(path.with_suffix(".new"), path)


class Brokers:
    """A listener, and how brokers connect to it; all have the same stores."""

    def __init__(self, it: Running, stores: Stores, inter_broker: Transport, log: pytest.LogCaptureFixture) -> None:
        self.it, self.stores, self._inter_broker, self._log = it, stores, inter_broker, log

    async def connect(self) -> Connection:
        return await self.it.open(self._inter_broker)

    async def principal(self) -> str:
        """As which a broker is served that connects now."""
        connection = await self.connect()
        try:
            return (await self.it.ask(connection)).removesuffix(" asks x")
        finally:
            connection.close()

    async def after(self, event: str, change: Callable[[], None]) -> None:
        """Once more an event of this name has been logged."""
        before = self._count(event)
        change()
        async with asyncio.timeout(TIMEOUT_S):
            while self._count(event) == before:
                await asyncio.sleep(0.01)

    def _count(self, event: str) -> int:
        return sum(record.getMessage() == event for record in self._log.records)


@pytest.fixture
def authorities(tmp_path: Path) -> tuple[Authority, Authority]:
    return Authority(tmp_path / "old"), Authority(tmp_path / "new")


@asynccontextmanager
async def brokers(
    folder: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Brokers]:
    stores = Stores(folder)
    stores.put(authority, key=authority.issue("broker", "127.0.0.1"))
    made = secured(
        {
            "listeners": "BETWEEN://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "listener.security.protocol.map": "BETWEEN:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BETWEEN",
            "listener.name.between.ssl.client.auth": "required",
            "ssl.keystore.location": str(stores.key),
            "ssl.truststore.location": str(stores.trusted),
        }
    )
    assert isinstance(made.inter_broker, Transport)
    with caplog.at_level(logging.INFO, "rookery"):
        async with running(made.protections["BETWEEN"]) as it:
            watching = asyncio.create_task(TlsReload(made.reload.listeners, look_s=0.02).serve())
            try:
                yield Brokers(it, stores, made.inter_broker, caplog)
            finally:
                watching.cancel()


@pytest.mark.row(149)
async def test_certificate_and_authority_are_exchanged_and_brokers_go_on_to_connect(
    tmp_path: Path, authorities: tuple[Authority, Authority], caplog: pytest.LogCaptureFixture
) -> None:
    old, new = authorities
    async with brokers(tmp_path, old, caplog) as cluster:
        kept = await cluster.connect()
        assert await cluster.principal() == "User:CN=broker"
        stores, renewed = cluster.stores, new.issue("renewed", "127.0.0.1")
        await cluster.after("tls.reloaded", lambda: stores.put(old, new))
        assert await cluster.principal() == "User:CN=broker"
        await cluster.after("tls.reloaded", lambda: stores.put(key=renewed))
        assert await cluster.principal() == "User:CN=renewed", "both sides have the new one"
        await cluster.after("tls.reloaded", lambda: stores.put(new))
        assert await cluster.principal() == "User:CN=renewed"
        assert await cluster.it.ask(kept) == "User:CN=broker asks x", "open connections stay"
        with pytest.raises((ConnectionLostError, OSError)):
            await cluster.it.open(Transport(trusting(old, old.issue("late", "127.0.0.1"))))
        kept.close()


async def test_a_certificate_that_brokers_would_refuse_is_not_used(
    tmp_path: Path, authorities: tuple[Authority, Authority], caplog: pytest.LogCaptureFixture
) -> None:
    old, new = authorities
    async with brokers(tmp_path, old, caplog) as cluster:
        stores = cluster.stores
        renewed = new.issue("renewed", "127.0.0.1")
        await cluster.after("tls.reload.failed", lambda: stores.put(key=renewed))
        assert "would refuse each other" in str([getattr(each, "fields", {}) for each in caplog.records])
        assert await cluster.principal() == "User:CN=broker"
        for_clients = old.issue("clients", "127.0.0.1", more="extendedKeyUsage=clientAuth\n")
        await cluster.after("tls.reload.failed", lambda: stores.put(key=for_clients))
        assert await cluster.principal() == "User:CN=broker"
        await cluster.after("tls.reloaded", lambda: stores.put(new, key=renewed))
        assert await cluster.principal() == "User:CN=renewed", "what fits together is used"


async def test_alter_configs_refuses_it_too_by_what_holds_now(
    tmp_path: Path, authorities: tuple[Authority, Authority]
) -> None:
    old, new = authorities
    stores = Stores(tmp_path)
    stores.put(old, key=old.issue("broker", "127.0.0.1"))
    renewed, both = new.issue("renewed", "127.0.0.1"), tmp_path / "both.pem"
    both.write_bytes(old.path.read_bytes() + new.path.read_bytes())
    config = {
        "listeners": "BETWEEN://127.0.0.1:9092",
        "listener.security.protocol.map": "BETWEEN:SSL",
        "inter.broker.listener.name": "BETWEEN",
        "listener.name.between.ssl.client.auth": "required",
        "listener.name.between.ssl.keystore.location": str(stores.key),
        "listener.name.between.ssl.truststore.location": str(stores.trusted),
    }
    async with bare(**config) as scene:

        async def named(store: str, file: Path) -> str:
            option = {"name": f"listener.name.between.ssl.{store}.location", "value": str(file), "config_operation": 0}
            resource = {"resource_type": 4, "resource_name": "1", "configs": [option]}
            answer = await scene.admin.ask("IncrementalAlterConfigs", 1, resources=[resource])
            return answer.responses[0].error_message or ""

        assert "would refuse each other" in await named("keystore", renewed)
        assert "would refuse each other" in await named("truststore", new.path)
        assert await named("truststore", both) == ""
        assert await named("keystore", renewed) == ""
        stores.key.unlink()  # what was given at the start does not count any more
        assert "would refuse each other" in await named("truststore", old.path)
        assert await named("truststore", new.path) == ""
