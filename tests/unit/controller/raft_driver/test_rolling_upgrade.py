"""A rolling upgrade over real connections: three controllers and a broker, one after the other, then the level."""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rookery.broker.controller_client import ControllerClient
from rookery.broker.metadata.follower import MetadataFollower, MetadataFollowerSettings
from rookery.controller.access import Access, Context
from rookery.controller.loop import ControllerLoop
from rookery.controller.raft.node import RaftNode
from rookery.controller.raft.service import RaftService
from rookery.controller.raft.settings import RaftSettings
from rookery.controller.rpc import ControllerService
from rookery.controller.server import ControlServer
from rookery.controller.settings import ControllerSettings
from rookery.core.clock import SystemClock
from rookery.core.errors import ErrorCode, UnsupportedVersionError
from rookery.core.metadata import requests as q
from rookery.core.metadata.delta import LatestImage
from rookery.core.metadata.features import METADATA_VERSION, Release, UnsupportedLevelError
from rookery.core.metadata.image import Image
from rookery.core.metadata.snapshot import state_hash
from tests.unit.controller.raft_driver.nodes import Nodes, until
from tests.unit.controller.releases import LEVEL, NEXT, OLD, RAISE, RAISED
from tests.unit.controller.state.clusters import CLUSTER, register_request

BROKER = 50


class Controller:
    """One controller process in all but name: Raft, the controller on it, and their port."""

    def __init__(self, settings: RaftSettings, endpoint: str, release: Release) -> None:
        self.endpoint = endpoint
        self.settings = replace(settings, release=release, cluster_id=CLUSTER)
        self.raft = RaftNode(self.settings, level=lambda: release.level(self.image))
        own = ControllerSettings(settings.node_id, CLUSTER, session_s=60.0, reconnect_grace_s=30.0, release=release)
        self.loop = ControllerLoop(own, self.raft, SystemClock())
        self.raft.subscribe(self.loop.controller)
        peers = RaftService(self.raft)
        brokers = ControllerService(self.loop, peers.access, self.raft.leader_hint)
        self.server = ControlServer(endpoint, [peers.register, brokers.register], grace_s=0.05)
        self._serving: asyncio.Task[None] | None = None

    @property
    def image(self) -> Image:
        return self.loop.controller.committed

    async def start(self) -> None:
        await self.server.start()
        await self.raft.start()
        self._serving = asyncio.create_task(self.loop.serve())

    async def stop(self) -> None:
        await self.raft.stop()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait([self._serving])
        await self.server.stop()


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.nodes = Nodes(folder, 3)
        self.controllers = [self._controller(index, OLD) for index in range(3)]

    def _controller(self, index: int, release: Release) -> Controller:
        member = self.nodes.members[index]
        return Controller(member.settings, member.endpoint, release)

    async def restart(self, index: int, release: Release) -> None:
        await self.controllers[index].stop()
        self.controllers[index] = self._controller(index, release)
        await self.controllers[index].start()

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(controller.endpoint for controller in self.controllers)

    async def agreed(self, what: str, holds: Callable[[Image], bool]) -> None:
        """Wait until it holds on all controllers, and they have the same state."""
        await until(what, lambda: all(holds(each.image) for each in self.controllers))
        await until("the same state", lambda: len({state_hash(each.image) for each in self.controllers}) == 1)


class Broker:
    """A broker as the controllers know it: a client, and a reader of the metadata log."""

    def __init__(self, cluster: Cluster, release: Release, incarnation: int) -> None:
        self.release = release
        self.incarnation = incarnation
        self.fold = LatestImage(release=release)
        settings = MetadataFollowerSettings(CLUSTER, BROKER, cluster.endpoints, max_wait_ms=200, request_timeout_ms=600)
        self.follower = MetadataFollower(settings, self, lambda: release.rpc_version(self.level()))
        self.client = ControllerClient(CLUSTER, BROKER, cluster.endpoints, release=release, level=self.level)

    def level(self) -> int:
        return self.release.level(self.fold.image)

    def on_commit(self, batch: Any) -> None:
        self.fold.on_commit(batch)

    def on_snapshot(self, snapshot: Any, values: Any) -> None:
        self.fold.on_snapshot(snapshot, values)

    def on_leader(self, leader_id: int, epoch: int) -> None: ...

    async def register(self) -> None:
        request = register_request(BROKER, self.incarnation, features=self.release.features)
        epoch = (await self.client.ask(request)).broker_epoch
        await until("its registration", lambda: self.fold.image.offset >= epoch)
        reply = await self.client.ask(q.HeartbeatRequest(BROKER, epoch, self.fold.image.offset))
        assert not reply.fenced

    async def retire(self) -> None:
        """Stop in order, so that the next process may register."""
        epoch = self.fold.image.brokers[BROKER].epoch
        reply = None
        while reply is None or not reply.should_shut_down:
            beat = q.HeartbeatRequest(BROKER, epoch, self.fold.image.offset, want_shut_down=True)
            reply = await self.client.ask(beat)

    async def topic(self, name: str) -> None:
        reply = await self.client.ask(q.CreateTopicsRequest((q.NewTopic(name, 1, 1),)))
        assert reply.topics[0].error == ErrorCode.NONE, reply
        await until("the broker hears of it", lambda: name in self.fold.image.topic_ids)


@asynccontextmanager
async def broker(cluster: Cluster, release: Release, incarnation: int) -> AsyncIterator[Broker]:
    made = Broker(cluster, release, incarnation)
    serving = asyncio.create_task(made.follower.serve())
    try:
        await made.register()
        yield made
        assert not serving.done(), serving
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        await made.follower.stop()
        await made.client.close()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(tmp_path)
    for controller in made.controllers:
        await controller.start()
    yield made
    for controller in made.controllers:
        await controller.stop()


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """The versions in which calls arrived, by the node that answered; as they come."""
    heard: dict[int, list[int]] = defaultdict(list)
    check = Access.check_version

    async def note(self: Access, context: Context, version: int) -> None:
        heard[self.node_id].append(version)
        await check(self, context, version)

    monkeypatch.setattr(Access, "check_version", note)
    return heard


async def answered(client: ControllerClient, why: str) -> None:
    """Ask that the level be raised, and be refused for this reason; for none if it is empty. A leader just elected
    has yet to hear of the others."""
    async with asyncio.timeout(15):
        while True:
            (answer,) = (await client.ask(RAISE)).features
            said = str(answer.message) if answer.error else ""
            if re.search(why, said) if why else not said:
                return
            assert "has not reported" in said, said
            await asyncio.sleep(0.02)


async def test_nodes_of_two_releases_run_together_until_the_level_is_raised(
    cluster: Cluster, spoken: dict[int, list[int]]
) -> None:
    old, new = OLD.rpc_version(LEVEL), NEXT.rpc_version(RAISED)
    async with broker(cluster, OLD, 1) as first:
        await first.topic("before")
        for index in range(3):
            await cluster.restart(index, NEXT)
            await first.topic(f"while-{index}")
            await cluster.agreed("all have it", lambda image, name=f"while-{index}": name in image.topic_ids)  # type: ignore[misc]
            if index == 1:
                await answered(first.client, "not understood by (controller 3|the controller)")
        await answered(first.client, f"not understood by broker {BROKER}")
        await first.retire()
    async with broker(cluster, NEXT, 2) as second:
        with pytest.raises(UnsupportedVersionError, match=rf"needs {METADATA_VERSION} {RAISED}"):
            await second.client.ask(q.AllocateProducerIdsRequest(BROKER, second.client.broker_epoch))
        assert {version for heard in spoken.values() for version in heard} == {old}
        await answered(second.client, "")
        await cluster.agreed("the level", lambda image: image.features[METADATA_VERSION] == RAISED)
        await until("the broker knows", lambda: second.level() == RAISED)
        spoken.clear()
        await second.topic("after")
        await cluster.agreed("all have it", lambda image: "after" in image.topic_ids)
        await until("all speak the new version", lambda: any(new in heard for heard in spoken.values()))
        epoch = second.fold.image.brokers[BROKER].epoch
        assert (await second.client.ask(q.AllocateProducerIdsRequest(BROKER, epoch))).count > 0


async def test_an_old_node_refuses_what_it_does_not_understand(cluster: Cluster) -> None:
    for index in range(3):
        await cluster.restart(index, NEXT)
    async with broker(cluster, NEXT, 1) as new:
        await answered(new.client, "")
        await new.topic("after")
        await cluster.agreed("all have it", lambda image: "after" in image.topic_ids)
        await new.retire()
    late = Broker(cluster, OLD, 2)
    with pytest.raises(UnsupportedLevelError, match=rf"{METADATA_VERSION} is at {RAISED}"):
        await late.follower.serve()
    with pytest.raises(UnsupportedVersionError, match=rf"{METADATA_VERSION} is at {RAISED}.*on broker {BROKER}"):
        await late.client.ask(register_request(BROKER, 2, features=OLD.features))
    await late.follower.stop()
    await late.client.close()
    await cluster.restart(2, OLD)
    with pytest.raises(ExceptionGroup) as ended:
        await cluster.controllers[2].raft.serve()
    assert ended.group_contains(UnsupportedLevelError, match=rf"{METADATA_VERSION} is at {RAISED}")
