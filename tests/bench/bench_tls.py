"""One node with TLS, SASL and an authorizer under librdkafka, beside Apache Kafka's server secured in the same way.

Both run at the same time and are loaded in turns, so a busy machine slows both. Kafka's Java may compile all it wants
to: without its second compiler TLS is several times as slow.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from rookery.client.local import launcher
from rookery.client.local.security import LIBRDKAFKA_PROPERTIES, LISTENER, LocalSecurity
from rookery.core.config.properties import read_properties
from rookery.core.security.jaas import PLAIN_MODULE
from tests.bench import loaders
from tests.interop.kafka.server import KafkaServer

SIZES = {100: 400_000, 1000: 150_000}
"""Records by bytes of a record."""
ROUNDS = 4
GOALS = "goal: at least the rate of Apache Kafka, in each row"


@dataclass(frozen=True)
class Server:
    """A node and how clients get in."""

    bootstrap: str
    pid: int
    options: dict[str, Any]

    def create(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **self.options})
        for made in admin.create_topics([NewTopic(f"bench-{size}", 1, 1) for size in SIZES]).values():
            made.result(60)

    def produce(self, size: int) -> loaders.Cost:
        return loaders.measured(
            [self.pid],
            lambda: loaders.produce(self.bootstrap, f"bench-{size}", size, SIZES[size], acks=1, **self.options),
        )

    def consume(self, size: int) -> loaders.Cost:
        return loaders.measured(
            [self.pid],
            lambda: loaders.consume(self.bootstrap, f"bench-{size}", 1, SIZES[size], size, **self.options),
        )


@contextmanager
def rookery(folder: Path) -> Iterator[Server]:
    """As `rookery up --secure` makes it."""
    file = launcher.bring_up(launcher.UpRequest(folder, 1, 0, {}, False, secure=True), print)
    try:
        options = read_properties((folder / LIBRDKAFKA_PROPERTIES).read_text())
        yield Server(options.pop("bootstrap.servers"), file.nodes[0].pid, dict(options))
    finally:
        launcher.bring_down(folder, print)


@contextmanager
def apache_kafka(folder: Path, ours: Server) -> Iterator[Server]:
    """With the certificate of our node, and PLAIN: a mechanism matters only while one logs in."""
    login = f'{PLAIN_MODULE} required username="admin" password="p" user_admin="p";'
    server = KafkaServer(
        folder,
        LISTENER,
        {
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{LISTENER}:{LISTENER}",
            "security.inter.broker.protocol": LISTENER,
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": login,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(LocalSecurity(folder.parent / "rookery").certificate(1)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": ours.options["ssl.ca.location"],
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
        },
    )
    server.start(heap="1g", java=())
    try:
        options = {**ours.options, "sasl.mechanism": "PLAIN", "sasl.password": "p"}
        yield Server(server.bootstrap, server.pid, options)
    finally:
        server.stop()


def compare(title: str, ours: Callable[[], loaders.Cost], theirs: Callable[[], loaders.Cost]) -> None:
    """In turns; the best of each counts, since the first rounds also warm up."""
    found = [(ours(), theirs()) for _ in range(ROUNDS)]
    best = [min((run[who] for run in found), key=lambda cost: cost.seconds) for who in (0, 1)]
    for name, cost in zip(("rookery", "apache kafka"), best, strict=True):
        print(f"{name:<14}{title:<16}{cost.line}", flush=True)
    times = best[1].seconds / best[0].seconds
    print(f"{title}: {times:.2f}x Apache Kafka; goal 1x: {'met' if times >= 1 else 'MISSED'}", flush=True)


def main() -> None:
    print(f"{GOALS}; load average {os.getloadavg()[0]:.1f}")
    folder = Path(tempfile.mkdtemp(prefix="bench-tls-"))
    (folder / "kafka").mkdir()
    try:
        with rookery(folder / "rookery") as ours, apache_kafka(folder / "kafka", ours) as theirs:
            ours.create()
            theirs.create()
            for size in SIZES:
                compare(f"produce {size} B", partial(ours.produce, size), partial(theirs.produce, size))
                compare(f"consume {size} B", partial(ours.consume, size), partial(theirs.consume, size))
        print(f"load average {os.getloadavg()[0]:.1f}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
