"""Nodes as processes of their own, started as `rookery up` does. Faults are real: `kill` is kill -9."""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rookery.testing.caretaker import Caretaker
from rookery.testing.embedded import defaults
from rookery.testing.faults import UnsupportedFault, flip_in_file
from rookery.testing.node_logs import NodeLogs
from rookery.testing.node_processes import NodeProcesses
from rookery.testing.questions import known_to
from rookery.testing.timeline import Entry, Timeline

T = TypeVar("T")
IN_PROCESS = "use nodes in this process (processes=False)"


class SeparateNodes:
    """The same interface as `EmbeddedNodes`, for what processes can do."""

    def __init__(
        self, nodes: int, config: Mapping[str, str], folder: Path | None, timeline: Timeline, port: int = 0
    ) -> None:
        self._own_folder = None if folder is not None else tempfile.mkdtemp(prefix="rookery-testing-")
        self.folder = folder if folder is not None else Path(str(self._own_folder))
        self._processes = NodeProcesses(
            self.folder, nodes, {**defaults(nodes), **config}, lambda sentence: timeline.add("nodes", sentence)
        )
        self._timeline, self._logs = timeline, NodeLogs(timeline)
        timeline.follow(self._logged)
        self._port = port
        self._caretaker = Caretaker(self.folder, temporary=folder is None)
        self.ids = list(range(1, nodes + 1))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rookery-testing", daemon=True)
        self._thread.start()
        self.is_up, self.kill = self._processes.is_up, self._processes.kill
        self.pause, self.resume = self._processes.pause, self._processes.resume

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        return self._processes.bootstrap

    @property
    def answering(self) -> str:
        """The addresses of nodes that are neither down nor paused; of all if there is none."""
        return self._processes.awake or self.bootstrap

    def know(self, topic: str) -> bool:
        """Whether every node that answers knows a topic."""
        return all(self.call(known_to(address, topic)) for address in self._processes.awake.split(","))

    def pid(self, node_id: int) -> int:
        """Of the process that was started last as this node."""
        return self._processes.node(node_id).pid

    def held_since(self, topic: str, partition: int, offset: int) -> dict[int, float]:
        """Not known of processes."""
        return {}

    def committed_since(self, topic: str, partition: int, offset: int) -> float | None:
        """Not known of processes."""
        return None

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def _logged(self) -> list[Entry]:
        """What the nodes have logged since this was asked the last time."""
        paths = {node_id: self.folder.resolve() / f"node-{node_id}" / "node.log" for node_id in self.ids}
        return [entry for node_id, path in paths.items() for entry in self._logs.more(node_id, path)]

    # --- life ------------------------------------------------------------------------------------------------

    def start(self, *node_ids: int) -> None:
        """Start nodes that do not run, all or those named."""
        if node_ids:
            self._processes.start(*node_ids)
        else:
            self._processes.up(port=self._port)

    def stop(self, *node_ids: int) -> None:
        for node_id in node_ids or reversed(self.ids):
            self._processes.stop(node_id)

    def close(self) -> None:
        """End all nodes at once, also when not all came up."""
        try:
            self._processes.kill_all()
            self._timeline.entries()  # before the logs go
        finally:
            self._caretaker.release()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            if self._own_folder is not None:
                shutil.rmtree(self._own_folder, ignore_errors=True)

    # --- faults ----------------------------------------------------------------------------------------------

    def contents(self, node_id: int, path: str) -> bytes:
        return Path(path).read_bytes()

    def flip(self, node_id: int, path: str, place: int) -> None:
        flip_in_file(path, place)

    def replica_files(self, node_id: int, folder: str) -> list[str]:
        place = Path(self._processes.node(node_id).data) / folder
        return [str(path) for path in sorted(place.glob("*.log"))]

    def cut(self, one: int, other: int) -> None:
        raise UnsupportedFault(f"the network between processes cannot be cut without root; {IN_PROCESS}")

    def mend(self, one: int, other: int) -> None:
        """Nothing was cut."""

    def slow(self, node_id: int, delay_s: float) -> None:
        raise UnsupportedFault(f"the network between processes cannot be slowed down without root; {IN_PROCESS}")

    def set_full(self, node_id: int, full: bool) -> None:
        raise UnsupportedFault(f"the disk of a process is the machine's, which is not to be filled; {IN_PROCESS}")

    def shift_clock(self, node_id: int, by_ms: int) -> None:
        raise UnsupportedFault(f"a process reads the machine's clock; {IN_PROCESS}")

    def lose_power(self, node_id: int) -> None:
        raise UnsupportedFault(
            f"the kernel keeps what a killed process has written; {IN_PROCESS} with data in memory"
        )

    def lose_answers(self, node_id: int, api: str, take: Callable[[], bool]) -> Callable[[], None]:
        raise UnsupportedFault(f"answers of a process cannot be taken away; {IN_PROCESS}")
