"""Three controllers as real processes, brokers by script: whoever is killed, at whatever moment, there is one active
controller, nothing acknowledged is lost and nothing is half done."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rookery.core.metadata import requests as q
from tests.cluster.controllers import Controllers, ScriptedBroker, cluster, until

pytestmark = pytest.mark.alone

PARTITIONS = 4
CONFIG = {"retention.ms": "12345", "min.insync.replicas": "2"}


def new_topic(name: str) -> q.CreateTopicsRequest:
    configs = tuple(q.ConfigEntry(key, value) for key, value in CONFIG.items())
    topic = q.NewTopic(name, PARTITIONS, 3, configs=configs, topic_id=uuid4())  # the asker draws the id, as brokers do
    return q.CreateTopicsRequest((topic,))


async def agreed(controllers: Controllers) -> dict[str, Any]:
    """What all running controllers hold, once they hold the same."""

    def same() -> bool:
        looks = controllers.looks()
        alive = sum(voter.alive for voter in controllers.voters)
        offsets = {(look["offset"], look["hash"]) for look in looks}
        return len(looks) == alive and len(offsets) == 1 and controllers.active() is not None

    await until(same, "all controllers hold the same state and one is active")
    return controllers.looks()[0]


def whole(look: dict[str, Any], name: str) -> bool:
    """The topic is there with everything it was created with."""
    topic = look["topics"][name]
    return len(topic["leaders"]) == PARTITIONS and topic["config"] == CONFIG


@pytest.mark.row(74, 77, 78, 79)
@pytest.mark.invariant("M1", "M2", "M11")
@pytest.mark.parametrize("when", ["appended", "committed"])
async def test_the_active_controller_dies_between_append_and_answer(tmp_path: Path, when: str) -> None:
    async with cluster(tmp_path) as (controllers, brokers):
        acknowledged: list[str] = []
        ids: set[int] = set()
        client = brokers[0].client
        for round_ in range(3):
            before = f"before-{round_}"
            assert (await client.ask(new_topic(before))).topics[0].error == 0
            acknowledged.append(before)
            await agreed(controllers)
            victim = controllers.active()
            assert victim is not None
            victim.ask(do="doom", when=when)
            doomed = f"doomed-{round_}"
            reply = await client.ask(new_topic(doomed))  # the client finds the next controller by itself
            assert reply.topics[0].error == 0  # also where it is there already: it has the id that was asked for
            assert victim.process is not None
            victim.process.wait(60)
            block = await client.allocate_producer_ids()
            assert not ids & set(block)
            ids |= set(block)
            victim.start()
            acknowledged.append(doomed)
            look = await agreed(controllers)
            assert sorted(look["topics"]) == sorted(acknowledged)
            assert all(whole(look, name) for name in acknowledged)
            assert look["next_producer_id"] > max(ids)


@pytest.mark.row(78)
@pytest.mark.invariant("M1")
async def test_people_see_what_the_controllers_hold(tmp_path: Path) -> None:
    async with cluster(tmp_path, brokers=1) as (controllers, brokers):
        request = q.CreateTopicsRequest((q.NewTopic("seen", 2, 1),))
        await brokers[0].client.ask(request)
        look = await agreed(controllers)
        addresses = ",".join(voter.endpoint for voter in controllers.voters)
        command = [sys.executable, "-m", "rookery.client.cli", "metadata", "dump", "-o", "json"]
        told = await asyncio.to_thread(
            subprocess.run, [*command, "--controllers", addresses], capture_output=True, check=True, timeout=30
        )
        shown = json.loads(told.stdout)
        assert shown["hash"] == look["hash"]
        assert shown["topics"] == {"seen": look["topics"]["seen"]["id"]}
        folder = controllers.voters[2].folder / "data"
        told = await asyncio.to_thread(
            subprocess.run, [*command, "--data", str(folder)], capture_output=True, check=True, timeout=30
        )
        assert json.loads(told.stdout)["hash"] == look["hash"]


@pytest.mark.row(74, 75)
async def test_never_two_active_controllers(tmp_path: Path) -> None:
    async with cluster(tmp_path, brokers=1) as (controllers, brokers):
        seen: list[int] = []
        stop = asyncio.Event()

        async def sample() -> None:
            while not stop.is_set():
                looks = controllers.looks()
                epochs = [look["leader"][1] for look in looks if look["active"] == 1]
                assert len(epochs) == len(set(epochs))
                seen.append(len(epochs))
                await asyncio.sleep(0.05)

        sampling = asyncio.create_task(sample())
        for round_ in range(3):
            await until(lambda: controllers.active() is not None, "one is active")
            victim = controllers.active()
            assert victim is not None
            victim.kill()
            name = f"after-{round_}"
            request = q.CreateTopicsRequest((q.NewTopic(name, 1, 1),))
            assert (await brokers[0].client.ask(request)).topics[0].error in (0, 36)
            victim.start()
        await agreed(controllers)
        stop.set()
        await sampling
        assert max(seen) == 1
        assert seen[-1] == 1


@pytest.mark.row(65, 69, 77)
@pytest.mark.invariant("M5")
async def test_a_killed_broker_is_fenced_at_once_and_its_leaders_move(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (controllers, brokers):
        await brokers[0].client.ask(new_topic("t"))
        victim, others = brokers[0], {broker.id for broker in brokers[1:]}
        begun = time.monotonic()
        await victim.kill()
        await until(lambda: fenced(controllers, victim), "the broker is fenced")
        assert time.monotonic() - begun < 15.0  # far less than its session
        look = await agreed(controllers)
        assert set(look["topics"]["t"]["leaders"]) <= others
        assert not any(look["brokers"][str(broker)] for broker in others)


@pytest.mark.row(69)
@pytest.mark.invariant("M10")
async def test_brokers_that_live_are_not_fenced_when_the_controller_dies(tmp_path: Path) -> None:
    # the brokers share a loop with this test, which stands still while it looks
    patient = {"rookery.broker.reconnect.grace.ms": "2000"}
    async with cluster(tmp_path, options=patient) as (controllers, _brokers):
        await agreed(controllers)
        victim = controllers.active()
        assert victim is not None
        victim.kill()
        await until(lambda: controllers.active() is not None, "another is active")
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            for look in controllers.looks():
                assert not any(look["brokers"].values())
            await asyncio.sleep(0.05)


def fenced(controllers: Controllers, broker: ScriptedBroker) -> bool:
    active = controllers.active()
    look = active.look() if active else None
    return bool(look and look["brokers"][str(broker.id)])
