"""One Kafka broker and controller in one process, on loopback, with its data in a folder of the test."""

import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from rookery.core.config.properties import properties_text
from tests.interop.kafka import jars
from tests.ports import free_ports

CLUSTER_ID = "kVkM3JZTSbqqQHBcOFkpBw"
START_S = 90


class KafkaServer:
    """`start` and `stop` may be repeated on the same data."""

    def __init__(
        self, folder: Path, protocol: str = "PLAINTEXT", options: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`protocol` of the listener for clients, with the options that it needs."""
        self.data = folder / "data"
        self._config = folder / "server.properties"
        self._output = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port, controller = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self._port}"
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"{protocol}://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            **options,
        }
        self._config.write_text(properties_text(values))
        formatting = [*jars.command("kafka.tools.StorageTool"), "format", "-t", CLUSTER_ID, "-c"]
        subprocess.run([*formatting, str(self._config)], check=True, capture_output=True, timeout=60)

    def start(self, heap: str = "384m", java: tuple[str, ...] = jars.QUICK_START) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [*jars.command("kafka.Kafka", heap=heap, options=java), str(self._config)],
                stdout=output, stderr=output,
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Kafka did not start:\n{self._output.read_text()[-3000:]}")
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("Kafka does not run")
        return self._process.pid

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def stop(self) -> None:
        """A controlled shutdown, as SIGTERM asks for."""
        self._end(kill=False)

    def kill(self) -> None:
        self._end(kill=True)

    def _end(self, *, kill: bool) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            if kill:
                process.kill()
            else:
                process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()
                process.wait(10)
