"""A Spark cluster of separate processes, started from the pip package: one master, some workers with a core each."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.local import wait_for
from tests.cluster.quorum import free_ports
from tests.spark.session import link_home

WORKERS = 2
START_S = 120.0
HOST = "127.0.0.1"
EXECUTOR = b"CoarseGrainedExecutorBackend"


class Standalone:
    """The processes of one cluster. Jobs reach it at `master`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = link_home(folder)
        port, page = free_ports(2)
        self.master = f"spark://{HOST}:{port}"
        self._page = f"http://{HOST}:{page}/json/"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master.Master", "--port", str(port), "--webui-port", str(page))

    @property
    def environment(self) -> dict[str, str]:
        """For every process of Spark here: workers run this Python, JVMs compile little."""
        return {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
        }

    @property
    def settings(self) -> dict[str, str]:
        """What a driver has to say for such small workers on one machine."""
        return {
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.sql.shuffle.partitions": "2",
        }

    def add_worker(self) -> None:
        name = f"worker-{len(self._processes)}"
        limits = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
        self._start("worker.Worker", *limits, "--work-dir", str(self._folder / name), self.master)

    def _start(self, role: str, *words: str) -> None:
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", "--host", HOST, *words]
        with self._log.open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, env=self.environment, stdout=log, stderr=subprocess.STDOUT)
            )

    @property
    def _log(self) -> Path:
        return self._folder / "spark.log"

    def workers_alive(self) -> int:
        try:
            with urllib.request.urlopen(self._page, timeout=5) as answer:
                told = json.load(answer)
        except (OSError, ValueError):
            return 0
        return sum(each["state"] == "ALIVE" for each in told["workers"])

    def executors(self) -> list[int]:
        """The pids of the executors that the workers have started, oldest first."""
        workers = {process.pid for process in self._processes[1:]}
        found = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
        return sorted(pid for pid in found if _parent(pid) in workers and EXECUTOR in _command(pid))

    def show_log(self) -> None:
        lines = self._log.read_text(errors="replace").splitlines()
        print("--- the end of Spark's log", *lines[-60:], sep="\n")

    def stop(self) -> None:
        """Workers first: they end their executors."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@contextmanager
def standalone_cluster() -> Iterator[Standalone]:
    with tempfile.TemporaryDirectory(prefix="rookery-standalone-") as folder:
        cluster = Standalone(Path(folder))
        try:
            for _ in range(WORKERS):
                cluster.add_worker()
            wait_for(lambda: cluster.workers_alive() == WORKERS, "Spark's workers", START_S)
            yield cluster
        except BaseException:
            cluster.show_log()
            raise
        finally:
            cluster.stop()
