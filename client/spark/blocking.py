"""The asyncio client for blocking code: one event loop in its own thread, and a connection to the cluster.

Spark reuses its Python workers for many tasks, so connections are kept for the life of the process, one
cluster for each set of connection options. Nothing is opened at import or before a fork.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import uvloop

from rookery.client.producer import Producer
from rookery.client.producer.encoded import producer_over
from rookery.client.spark.kafka_options import ALL, Connecting, Producing
from rookery.core.net.client_properties import security_of
from rookery.core.net.cluster import Cluster

T = TypeVar("T")
BUFFER_MEMORY = 1 << 28
"""More than an outbox collects: only a row of this size would not fit."""


class BlockingCluster:
    """A cluster whose coroutines run in another thread."""

    def __init__(self, connecting: Connecting, cluster: Cluster | None = None) -> None:
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rookery-client", daemon=True)
        self._thread.start()
        self.cluster = cluster or Cluster(
            connecting.bootstrap,
            client_id=connecting.client_id,
            security=security_of(dict(connecting.security)),
            request_timeout_s=connecting.request_timeout_s,
        )
        self._connecting = connecting
        self._producers: dict[Producing, Producer] = {}
        self.batch_bytes_max: dict[str, int] = {}
        """Batch sizes of topics that refused larger batches of this process."""

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.submit(work).result()

    def producer(self, producing: Producing) -> Producer:
        """One for all writes of this process with the same options: brokers would have to store many producer ids if
        each task had its own."""
        if producing not in self._producers:
            settings = _settings(self._connecting, producing)
            self._producers[producing] = self.run(producer_over(self.cluster, settings))
        return self._producers[producing]

    def close(self) -> None:
        for producer in self._producers.values():
            self.run(producer.close(0))
        self.run(self.cluster.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _settings(connecting: Connecting, producing: Producing) -> dict[str, Any]:
    """Without idempotence one request at a time keeps the order of a partition's rows."""
    timeout_ms = int(producing.delivery_timeout_s * 1000)
    return {
        "bootstrap.servers": connecting.bootstrap,
        "client.id": connecting.client_id,
        "request.timeout.ms": min(int(connecting.request_timeout_s * 1000), timeout_ms),
        "acks": "all" if producing.acks == ALL else str(producing.acks),
        "enable.idempotence": producing.idempotent,
        "max.in.flight.requests.per.connection": 5 if producing.idempotent else 1,
        "compression.type": producing.codec.name.lower(),
        "max.request.size": producing.request_bytes_max,
        "batch.size": producing.request_bytes_max,
        "buffer.memory": BUFFER_MEMORY,
        "linger.ms": 0,
        "max.block.ms": timeout_ms,
        "delivery.timeout.ms": timeout_ms,
    }


_kept: dict[tuple[int, Connecting], BlockingCluster] = {}
_keeping = threading.Lock()


def connected(connecting: Connecting) -> BlockingCluster:
    """This process's connections; a forked child opens its own."""
    with _keeping:
        key = (os.getpid(), connecting)
        if key not in _kept:
            _kept[key] = BlockingCluster(connecting)
        return _kept[key]


def close_all() -> None:
    """Close the connections of this process: for tests and for programs that continue without Spark."""
    with _keeping:
        for key in [key for key in _kept if key[0] == os.getpid()]:
            _kept.pop(key).close()
