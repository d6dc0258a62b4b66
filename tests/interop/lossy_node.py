"""A node whose clients reach it through a proxy that can lose an answer."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.local import LocalCluster
from tests.interop.aim import aimed_cluster
from tests.interop.lost_answer import LosesOneAnswer

START_S = 10.0


@contextmanager
def _proxy() -> Iterator[LosesOneAnswer]:
    """In a thread of its own, for clients that block."""
    between = LosesOneAnswer(broker_port=0)
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stopping = asyncio.Event()

    async def serve() -> None:
        async with between:
            started.set()
            await stopping.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        if not started.wait(START_S):
            raise TimeoutError("the proxy does not listen")
        yield between
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(START_S)
        loop.close()


@contextmanager
def lossy_node(**options: str) -> Iterator[tuple[LocalCluster, LosesOneAnswer]]:
    """One node that tells clients the proxy's address; its own address serves too, to start from."""
    with _proxy() as between:
        advertised = f"PLAINTEXT://127.0.0.1:{between.port}"
        with aimed_cluster(1, advertised__listeners=advertised, **options) as cluster:
            between.broker_port = int(cluster.node(1).kafka.rpartition(":")[2])
            yield cluster, between
