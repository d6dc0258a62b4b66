"""`rookery pipeline archive` as a process of its own, to be killed and started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.local import LocalCluster, wait_for

WAIT_S = 300.0


class ArchiveProcess:
    """One driver over one checkpoint, in a process group, so that its JVM and workers die with it."""

    def __init__(
        self,
        cluster: LocalCluster,
        topic: str,
        lake: Path,
        *words: str,
        master: str = "local[2]",
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._lake = lake
        self._log = lake.with_name(f"{lake.name}.log")
        command = [sys.executable, "-m", "rookery.client.cli", "pipeline", "archive", topic, str(lake)]
        command += ["--bootstrap", cluster.bootstrap, "--master", master, *words]
        for key, value in (settings or {}).items():
            command += ["--conf", f"{key}={value}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def wait_for_batches(self, more: int) -> None:
        """Until so many micro-batches more are in the files; a driver that ends before has failed."""
        target = self.finished() + more

        def reached() -> bool:
            assert self._process.poll() is None, f"the driver ended by itself: {self.said()}"
            return self.finished() >= target

        wait_for(reached, f"batch {target} of the archive; it said {self.said()}", WAIT_S)

    def finished(self) -> int:
        """How many micro-batches the checkpoint has seen to their end."""
        numbers = [int(path.name) for path in (self._lake / "_checkpoint" / "commits").glob("[0-9]*")]
        return max(numbers, default=-1) + 1

    def kill(self) -> None:
        """kill -9 of the driver, its JVM and its workers."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self) -> None:
        """Until it has done its work."""
        try:
            code = self._process.wait(WAIT_S)
        finally:
            if self._process.poll() is None:
                self.kill()
        assert code == 0, f"the archive ended with {code}: {self.said()}"

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]
