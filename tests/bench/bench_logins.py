"""What strangers could learn from times, and what their attempts cost others.

An unknown user and a wrong password must take the same time, and so must a topic that is hidden and one that does not
exist: medians of pairs, one after the other (goal: within 10 %). A storm of failing logins over TLS must not hold up
the event loop (goal: 50 ms): another process logs in with wrong passwords, many connections at a time, while this one
measures how late a timer comes, and how much of that is work of its own: on a busy machine it also waits for a core.
"""

import asyncio
import multiprocessing
import ssl
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median, quantiles

import uvloop

from rookery.broker.server.secured import Protection
from rookery.broker.server.tls import ListenerTls
from rookery.core.errors import KafkaError
from rookery.core.net.connection import Connection, ConnectionLostError
from rookery.core.net.sasl import Sasl, exchange_of
from rookery.core.security.sasl import Challenge, Failed, PlainServer, PlainUsers
from rookery.core.security.scram import Decoys, ScramCredential, ScramMechanism, ScramServer
from tests.certificates import Authority
from tests.unit.broker.authorization.scene import TOPIC, Caller, bare
from tests.unit.broker.server.test_secured import running, sasl, stores

PAIRS = 2000
STORM_S = 5.0
CONNECTIONS = 200
TICK_S = 0.002
USERS = {f"user-{number}": f"password-{number}" for number in range(1000)}
KNOWN, UNKNOWN = "user-77", "user-7x"


def cpu(work: Callable[[], object]) -> float:
    begun = time.thread_time_ns()
    work()
    return time.thread_time_ns() - begun


def compare(label: str, one: Callable[[], object], other: Callable[[], object]) -> None:
    ratios, first = [], []
    for number in range(PAIRS):
        left, right = (cpu(one), cpu(other)) if number % 2 else (cpu(other), cpu(one))[::-1]
        first.append(left)
        ratios.append(right / left)
    print(f"{label:44}{median(first) / 1000:10.1f} µs{100 * (median(ratios) - 1):+10.1f} %")


def _scram(kind: ScramMechanism, kept: dict[str, ScramCredential], decoys: Decoys, user: str) -> None:
    server = ScramServer(kind, kept.get, decoys, "server-nonce")
    assert isinstance(server.step(f"n,,n={user},r=client-nonce".encode(), 0), Challenge)
    proof = b64encode(bytes(len(kept[KNOWN].stored_key)))
    assert isinstance(server.step(b"c=biws,r=client-nonceserver-nonce,p=" + proof, 0), Failed)


def passwords() -> None:
    users = PlainUsers.of(USERS)
    for kind in ScramMechanism:
        credential = ScramCredential.of_password(kind, "right", b"a salt of 24 characters.")
        scram = partial(_scram, kind, dict.fromkeys(USERS, credential), Decoys(b"secret"))
        compare(f"{kind.mechanism}: unknown user", partial(scram, KNOWN), partial(scram, UNKNOWN))

    def plain(user: str) -> None:
        assert isinstance(PlainServer(users).step(f"\0{user}\0wrong".encode(), 0), Failed)

    compare("PLAIN: unknown user", lambda: plain(KNOWN), lambda: plain(UNKNOWN))


async def names() -> None:
    """Over a connection, with the same name again and again as an attacker would ask."""
    async with bare() as scene:
        scene.allow("DESCRIBE T other")

        async def ask(caller: Caller, name: str) -> float:
            begun = time.perf_counter_ns()
            await caller.ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
            return time.perf_counter_ns() - begun

        ratios, hidden = [], []
        for number in range(PAIRS):
            order = (TOPIC, "absent") if number % 2 else ("absent", TOPIC)
            took = {name: await ask(scene.alice, name) for name in order}
            hidden.append(took[TOPIC])
            ratios.append(took["absent"] / took[TOPIC])
        change = 100 * (median(ratios) - 1)
        print(f"{'Metadata: absent instead of hidden':44}{median(hidden) / 1000:10.1f} µs{change:+10.1f} %")


def attackers(port: int, authority: str, seconds: float) -> None:
    stop = time.monotonic() + seconds
    context = ssl.create_default_context(cafile=authority)
    login = Sasl(exchange_of("PLAIN", "ann", "wrong"), lambda: context)

    async def one() -> None:
        while time.monotonic() < stop:
            with suppress(KafkaError, OSError, ConnectionLostError):
                await Connection.open("127.0.0.1", port, client_id="t", security=login, timeout_s=5)

    async def storm() -> None:
        await asyncio.gather(*(one() for _ in range(CONNECTIONS)))

    uvloop.run(storm())


async def storm(folder: Path) -> None:
    authority = Authority(folder)
    protection = Protection(tls=ListenerTls("SECURE", stores(authority)), sasl=sasl())
    async with running(protection) as it:
        process = multiprocessing.get_context("spawn").Process(
            target=attackers, args=(it.port, str(authority.path), STORM_S), daemon=True
        )
        process.start()
        late: list[float] = []
        worked: list[float] = []
        while process.is_alive():
            due, before = time.monotonic() + TICK_S, time.thread_time()
            await asyncio.sleep(TICK_S)
            if protection.counts.failed:
                late.append(time.monotonic() - due)
                worked.append(time.thread_time() - before)
        print(f"storm over TLS: {protection.counts.failed / STORM_S:.0f} failed logins a second")
        for label, found in (("the loop is late", late), ("by its own work", worked)):
            cuts = [1000 * each for each in quantiles(found, n=1000)]
            most = 1000 * max(found)
            print(f"{label:44}{cuts[499]:10.1f} ms (median){cuts[989]:8.1f} ms (99 %){most:8.1f} ms (most)")


def main() -> None:
    passwords()
    uvloop.run(names())
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(storm(Path(folder)))
