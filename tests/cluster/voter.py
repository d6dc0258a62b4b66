"""A voter as a process of its own, with a tiny application: a list of words.

    python -m tests.cluster.voter CONFIG

On the socket ``side`` beside the configuration it takes JSON lines: {"do": "propose", "word": w} is answered
when w is committed, {"do": "look"} tells what the node knows, {"do": "snapshot"} writes one. Each epoch this node
leads is noted in leads.jsonl beside the configuration, before anything is proposed in it.
"""

import asyncio
import hashlib
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from rookery.broker.node.node import claim_metadata_folder
from rookery.controller.raft.node import RaftNode
from rookery.controller.raft.service import RaftService
from rookery.controller.raft.settings import RaftSettings
from rookery.controller.server import ControlServer, control_texts, controller_listener
from rookery.core import event_logging
from rookery.core.config import node as keys
from rookery.core.config.node import metadata_log_dir
from rookery.core.config.options import Settings
from rookery.core.config.properties import read_properties
from rookery.core.disk import FileDisk
from rookery.core.errors import KafkaError
from rookery.core.log.ownership import FolderLocks
from rookery.core.metadata_log import CommittedBatch, SnapshotId
from rookery.core.metrics import Metrics
from rookery.core.net.tls import read_tls
from rookery.core.service import ServiceGroup


class Words:
    """The replicated list, and who waits for which word."""

    def __init__(self, node_id: int, leads: Path) -> None:
        self.node_id = node_id
        self.words: list[str] = []
        self.end = SnapshotId(0, 0)
        self.epoch = -1
        self.leader = (-1, 0)
        self.waiting: dict[str, asyncio.Future[int]] = {}
        self.news = asyncio.Event()
        self._leads = leads

    def on_commit(self, batch: CommittedBatch) -> None:
        for offset, value in enumerate(batch.values, batch.base_offset):
            word = value.decode()
            self.words.append(word)
            waiting = self.waiting.pop(word, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(offset)
        self.end = SnapshotId(batch.last_offset + 1, batch.epoch)
        self.news.set()

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        self.words = [value.decode() for value in values]
        self.end = snapshot

    def on_leader(self, leader_id: int, epoch: int) -> None:
        self.leader = (leader_id, epoch)
        self.epoch = epoch if leader_id == self.node_id else -1
        if self.epoch >= 0:
            with self._leads.open("a") as file:
                file.write(json.dumps({"node": self.node_id, "epoch": epoch}) + "\n")
        for waiting in self.waiting.values():
            if not waiting.done():
                waiting.cancel()
        self.waiting.clear()

    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()


class SideDoor:
    """The test's way into the process."""

    def __init__(self, node: RaftNode, words: Words, metrics: Metrics) -> None:
        self._node = node
        self._words = words
        self._metrics = metrics

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(await self._answer(json.loads(line))).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, request: dict[str, str]) -> dict[str, object]:
        match request["do"]:
            case "propose":
                return await self._propose(request["word"])
            case "snapshot":
                words = self._words
                self._node.write_snapshot(words.end, [word.encode() for word in words.words])
                return {}
            case "load":
                return await self._load(**json.loads(request["shape"]))
            case "count":
                return {"count": len(self._words.words)}
            case "words":
                return {"words": self._words.words}
            case "metrics":
                return {"text": (await self._metrics.render()).decode()}
            case _:
                return self._look()

    async def _propose(self, word: str) -> dict[str, object]:
        words = self._words
        waiting = words.waiting[word] = asyncio.get_running_loop().create_future()
        try:
            self._node.propose(words.epoch, [word.encode()])
            async with asyncio.timeout(5):
                return {"offset": await waiting, "epoch": words.epoch}
        except KafkaError as error:
            return {"refused": str(error)}
        except (TimeoutError, asyncio.CancelledError):
            return {"unknown": "leadership was lost, or the commit took too long"}
        finally:
            words.waiting.pop(word, None)

    async def _load(self, batches: int, width: int, size: int, outstanding: int) -> dict[str, object]:
        """Have `batches` of `width` values committed, so many outstanding at a time; how long that took."""
        words, node, value = self._words, self._node, "x" * size
        proposed, started, wanted = 0, time.monotonic(), len(words.words) + batches * width
        while len(words.words) < wanted:
            while proposed < batches and wanted - len(words.words) - (batches - proposed) * width < outstanding * width:
                node.propose(words.epoch, [value.encode()] * width)
                proposed += 1
            words.news.clear()
            await words.news.wait()
        return {"seconds": time.monotonic() - started}

    def _look(self) -> dict[str, object]:
        words = self._words
        leader, epoch = self._node.leader
        return {
            "node": words.node_id,
            "leader": leader,
            "epoch": epoch,
            "leads": words.epoch >= 0,
            "count": len(words.words),
            "digest": words.digest(),
            "end": words.end.end_offset,
        }


async def main(config: Path) -> None:
    texts = read_properties(config.read_text())
    settings = Settings(keys.TABLE).having(texts)
    words = Words(settings[keys.NODE_ID], config.parent / "leads.jsonl")
    metrics, disk = Metrics(), FileDisk()
    locks = FolderLocks(disk, words.node_id)
    meta = await asyncio.to_thread(claim_metadata_folder, settings, locks)
    listener = controller_listener(settings)
    ssl_texts = control_texts(settings)
    tls = None if ssl_texts is None else read_tls(ssl_texts)
    node = RaftNode(RaftSettings.of(settings, meta, tls), disk=disk, metrics=metrics)
    node.subscribe(words)
    address = f"{listener.bind.host}:{listener.bind.port}"
    group = ServiceGroup([ControlServer(address, [RaftService(node).register], tls=tls), node])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, group.request_stop)
    doors: list[asyncio.Task[asyncio.Server]] = []

    def ready() -> None:
        door = SideDoor(node, words, metrics)
        doors.append(asyncio.ensure_future(asyncio.start_unix_server(door.serve, config.parent / "side")))

    try:
        await group.run(on_ready=ready)
    finally:
        locks.release(metadata_log_dir(settings))


if __name__ == "__main__":
    event_logging.configure(style="json")
    uvloop.run(main(Path(sys.argv[1])))
