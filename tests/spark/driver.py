"""`rookery pipeline ...` as a process of its own, to be killed and started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.local import LocalCluster, wait_for

WAIT_S = 300.0


class DriverProcess:
    """One driver over one checkpoint, in a process group, so that its JVM and workers die with it."""

    def __init__(
        self, words: Sequence[str], checkpoint: Path, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._checkpoint = checkpoint
        self._log = log
        command = [sys.executable, "-m", "rookery.client.cli", "pipeline", *words]
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=out, env=environment, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for_batches(self, more: int) -> None:
        """Until so many micro-batches more are complete; a driver that ends before has failed."""
        target = self.finished() + more

        def reached() -> bool:
            assert self._process.poll() is None, f"the driver ended by itself: {self.said()}"
            return self.finished() >= target

        wait_for(reached, f"batch {target}; it said {self.said()}", WAIT_S)

    def finished(self) -> int:
        """How many micro-batches the checkpoint has seen to their end."""
        numbers = [int(path.name) for path in (self._checkpoint / "commits").glob("[0-9]*")]
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
        assert code == 0, f"the driver ended with {code}: {self.said()}"

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


def confs(settings: Mapping[str, str] | None) -> list[str]:
    return [word for key, value in (settings or {}).items() for word in ("--conf", f"{key}={value}")]


class ArchiveProcess(DriverProcess):
    """`rookery pipeline archive`."""

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
        command = ["archive", topic, str(lake), "--bootstrap", cluster.bootstrap, "--master", master, *words]
        super().__init__(
            [*command, *confs(settings)], lake / "_checkpoint", lake.with_name(f"{lake.name}.log"), environment
        )


class PipelineProcess(DriverProcess):
    """`rookery pipeline run FILE`, with the state of its runs beside the file."""

    def __init__(
        self,
        cluster: LocalCluster,
        file: Path,
        checkpoint: Path,
        *words: str,
        master: str = "local[2]",
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        command = ["run", str(file), "--bootstrap", cluster.bootstrap, "--master", master, *words]
        states = {"XDG_STATE_HOME": str(file.parent / "runs")}
        super().__init__(
            [*command, *confs(settings)],
            checkpoint / "rows",
            file.with_suffix(".log"),
            {**(environment or os.environ), **states},
        )
