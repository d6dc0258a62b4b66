"""A controller as a process of its own, which can be told to die at the worst moment.

    python -m tests.cluster.controller_process CONFIG

On the socket ``side`` beside the configuration it takes JSON lines: {"do": "look"} tells what it knows, {"do":
"doom", "when": "appended" | "committed"} has it kill itself with SIGKILL the next time a topic record is appended
to its log, or committed, before any answer is given.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import uvloop

from rookery.broker.node.controller_role import ControllerRole
from rookery.broker.node.node import claim_metadata_folder
from rookery.controller.writer import Prepared
from rookery.core import event_logging
from rookery.core.clock import SystemClock
from rookery.core.config import node as keys
from rookery.core.config.options import Settings
from rookery.core.config.properties import read_properties
from rookery.core.disk import FileDisk
from rookery.core.log.ownership import FolderLocks
from rookery.core.metadata.image import Changes
from rookery.core.metadata.records import TopicRecord
from rookery.core.metadata.snapshot import state_hash
from rookery.core.metrics import Metrics
from rookery.core.service import ServiceGroup

ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"


class SideDoor:
    """The test's way into the process."""

    def __init__(self, role: ControllerRole, metrics: Metrics) -> None:
        self._controller = role.loop.controller
        self._metrics = metrics
        self._doom = ""
        writer = self._controller._writer
        propose, publish = writer.propose, self._controller._publish

        def propose_and_die(epoch: int, prepared: Prepared) -> Any:
            image = propose(epoch, prepared)
            if self._doom == "appended" and any(isinstance(record, TopicRecord) for record in prepared.records):
                os.kill(os.getpid(), signal.SIGKILL)
            return image

        def die_and_publish(changes: Changes) -> None:
            if self._doom == "committed" and changes.topics_created:
                os.kill(os.getpid(), signal.SIGKILL)
            publish(changes)

        writer.propose = propose_and_die  # type: ignore[method-assign]
        self._controller._publish = die_and_publish

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            request = json.loads(line)
            if request["do"] == "doom":
                self._doom = request["when"]
            writer.write(json.dumps(self._look()).encode() + b"\n")
            await writer.drain()
        writer.close()

    def _look(self) -> dict[str, object]:
        image = self._controller.committed
        return {
            "active": self._metrics.value(ACTIVE),
            "leader": self._controller.leader,
            "offset": image.offset,
            "hash": state_hash(image),
            "brokers": {broker.id: broker.fenced for broker in image.brokers.values()},
            "topics": {
                topic.name: {
                    "id": str(topic.id),
                    "leaders": [partition.leader for _, partition in topic.in_order()],
                    "config": dict(image.topic_config(topic.name)),
                }
                for topic in image.topics.values()
            },
            "next_producer_id": image.next_producer_id,
        }


async def main(config: Path) -> None:
    settings = Settings(keys.TABLE).having(read_properties(config.read_text()))
    disk, metrics = FileDisk(), Metrics()
    meta = await asyncio.to_thread(claim_metadata_folder, settings, FolderLocks(disk, settings[keys.NODE_ID]))
    role = ControllerRole(settings, meta, disk=disk, clock=SystemClock(), metrics=metrics)
    door = await asyncio.start_unix_server(SideDoor(role, metrics).serve, config.parent / "side")
    group = ServiceGroup(role.services)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, group.request_stop)
    async with door:
        await group.run()


if __name__ == "__main__":
    event_logging.configure(style="json")
    uvloop.run(main(Path(sys.argv[1])))
