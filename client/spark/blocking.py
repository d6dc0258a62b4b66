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

from rookery.client.identity import ProducerId
from rookery.client.spark.kafka_options import Connecting
from rookery.core.net.client_properties import security_of
from rookery.core.net.cluster import Cluster

T = TypeVar("T")


class BlockingCluster:
    """A cluster whose coroutines run in another thread."""

    def __init__(self, connecting: Connecting, cluster: Cluster | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rookery-client", daemon=True)
        self._thread.start()
        self.cluster = cluster or Cluster(
            connecting.bootstrap,
            client_id=connecting.client_id,
            security=security_of(dict(connecting.security)),
            request_timeout_s=connecting.request_timeout_s,
        )
        self.identity = ProducerId(self.cluster)
        """One for all writes of this process: brokers would have to store many if each task had its own."""
        self.batch_bytes_max: dict[str, int] = {}
        """Batch sizes of topics that refused larger batches of this process."""

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.submit(work).result()

    def close(self) -> None:
        self.run(self.cluster.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


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
