"""A cluster of real processes for tests: started with `rookery up`, faults by signals, facts over HTTP and Kafka."""

import asyncio
import json
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from rookery.client import admin
from rookery.client.local import launcher
from rookery.client.reader import LATEST, offset_at
from rookery.core.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from rookery.core.net.cluster import Cluster, PartitionView
from rookery.testing.node_processes import NodeProcesses

POLL_S = 0.05
WAIT_S = 60.0
HEALTH_S = 5.0
"""A node that is paused does not answer; who asks for its health is not to wait for that."""


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = WAIT_S) -> Any:
    """Poll until `condition` gives something true, and return that."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(POLL_S)


class LocalCluster(NodeProcesses):
    """Nodes on this machine. Every fault is a real one."""

    def __init__(self, folder: Path, nodes: int, options: dict[str, str]) -> None:
        super().__init__(folder, nodes, options)
        self._admin: AdminClient | None = None
        self.up()

    # --- facts ----------------------------------------------------------------------------------------------

    def http(self, node_id: int, page: str, timeout_s: float = WAIT_S) -> str:
        with urllib.request.urlopen(f"http://{self.node(node_id).http}{page}", timeout=timeout_s) as answer:
            return str(answer.read(), "utf-8")

    def health(self, node_id: int, timeout_s: float = HEALTH_S) -> dict[str, Any]:
        """The node's own report; empty if it does not answer."""
        try:
            return dict(json.loads(self.http(node_id, "/healthz?verbose", timeout_s)))
        except urllib.error.HTTPError as error:
            return dict(json.load(error))
        except OSError:
            return {}

    def metric(self, node_id: int, name: str) -> float:
        """The sum of a metric's samples on one node."""
        lines = self.http(node_id, "/metrics").splitlines()
        values = [line.rpartition(" ")[2] for line in lines if line.startswith((name + " ", name + "{"))]
        return sum(map(float, values))

    def active_controllers(self) -> list[int]:
        return [n for n in self.ids if self.health(n).get("controller", {}).get("active")]

    def active_controller(self) -> int:
        def one() -> int | None:
            found = self.active_controllers()
            return found[0] if len(found) == 1 else None

        return int(wait_for(one, "one controller"))

    def log(self, node_id: int) -> str:
        return (Path(self.node(node_id).data) / "node.log").read_text()

    def admin(self) -> AdminClient:
        """librdkafka's admin client: one for all calls, since it forgets what it was asked when it is dropped."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int = -1, config: dict[str, str] | None = None
    ) -> None:
        """A new topic that every node knows and whose partitions can be written and read."""
        assert self.known(name) == {0}, f"{name} is there already"

        async def create() -> None:
            async with Cluster(self.awake) as cluster:
                # as in Kafka: a controller that resigns before it can answer may have made it, as the next one says
                with suppress(TopicAlreadyExistsError):
                    await admin.create_topic(cluster, admin.NewTopic(name, partitions, replicas, config))

        async def serve() -> None:
            async with Cluster(self.awake) as cluster:
                await asyncio.gather(*(offset_at(cluster, name, index, LATEST) for index in range(partitions)))

        asyncio.run(create())
        self.wait_until_known(name, partitions)
        asyncio.run(serve())

    def partition(self, topic: str, index: int = 0) -> PartitionView:
        """The partition as some node that is awake tells."""
        return asyncio.run(_partition(self.awake, topic, index))

    def everywhere(self, holds: Callable[[PartitionView], bool], topic: str, index: int = 0) -> bool:
        """Whether something holds as each node that is awake tells: one that was away may still tell of the time
        before, or not know the partition yet."""
        try:
            return all(holds(asyncio.run(_partition(address, topic, index))) for address in self.awake.split(","))
        except (UnknownTopicOrPartitionError, KeyError):
            return False

    def known(self, topic: str) -> set[int]:
        """How many partitions the topic has, as each node that is awake tells; 0 where it is not known."""

        async def ask(address: str) -> int:
            async with Cluster(address, request_timeout_s=10) as cluster:
                found = (await cluster.refresh(None)).topics.get(topic)
                return 0 if found is None else len(found.partitions)

        return {asyncio.run(ask(address)) for address in self.awake.split(",")}

    def wait_until_known(self, topic: str, partitions: int) -> None:
        """Clients ask now this node, now that one; none may still tell of the time before a change. 0: of no topic."""
        wait_for(lambda: self.known(topic) == {partitions}, f"every node to know {partitions} partitions of {topic}")

    def overrides(self, topic: str) -> list[dict[str, str]]:
        """The options that the topic sets itself, as each node that is awake tells."""

        async def ask(address: str) -> dict[str, str]:
            async with Cluster(address, request_timeout_s=10) as cluster:
                return await admin.topic_overrides(cluster, topic)

        return [asyncio.run(ask(address)) for address in self.awake.split(",")]

    def leader(self, topic: str, index: int = 0) -> int:
        return int(wait_for(lambda: max(self.partition(topic, index).leader, 0), "a leader"))

    def show_logs(self) -> None:
        """What the nodes have to say, for a test that failed."""
        for node_id in self.ids:
            tail = "\n".join(self.log(node_id).splitlines()[-60:])
            print(f"--- the end of node {node_id}'s log\n{tail}")

    def wait_in_sync(self, topic: str, partitions: int = 1, replicas: int = 3) -> None:
        for index in range(partitions):
            wait_for(
                lambda index=index: self.everywhere(lambda told: len(told.isr) == replicas, topic, index),  # type: ignore[misc]
                f"every node to tell that {topic}-{index} has {replicas} replicas in sync",
            )


async def _partition(addresses: str, topic: str, index: int) -> PartitionView:
    async with Cluster(addresses, request_timeout_s=10) as cluster:
        return (await cluster.topic(topic)).partitions[index]


@contextmanager
def local_cluster(nodes: int = 3, **options: str) -> Iterator[LocalCluster]:
    """A cluster in a folder of its own; option names with ``__`` for dots. Logs are shown when the test fails."""
    folder = Path(tempfile.mkdtemp(prefix="rookery-test-"))
    try:
        cluster = LocalCluster(folder, nodes, {name.replace("__", "."): value for name, value in options.items()})
    except BaseException:
        launcher.bring_down(folder, print)
        raise
    try:
        yield cluster
    except BaseException:
        cluster.show_logs()
        raise
    finally:
        try:
            cluster.down()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
