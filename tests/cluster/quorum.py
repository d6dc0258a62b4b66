"""A quorum of real processes for tests: start, kill, pause, ask, and check what all of them say."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

ROOT = Path(__file__).resolve().parents[2]
CLUSTER_ID = "quorum-of-real-voters-"
T = TypeVar("T")
FAST = {
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.fetch.timeout.ms": "800",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.request.timeout.ms": "800",
}
"""Timings a fifth to a half of Kafka's, so that a round of faults takes a second or two."""


def eventually(what: str, ask: Callable[[], T | None], within_s: float = 15.0) -> T:
    """The first answer that is not None or False; AssertionError if there is none in time."""
    deadline = time.monotonic() + within_s
    while True:
        answer = ask()
        if answer is not None and answer is not False:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(0.01)


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, below the range the kernel hands out for outgoing connections."""
    found: list[int] = []
    port = 20_000 + (os.getpid() * 37) % 8_000
    while len(found) < count:
        port += 1
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                try:
                    probe.close()
                    with socket.socket() as taker:
                        taker.bind(("127.0.0.1", port))
                except OSError:
                    continue
                found.append(port)
    return found


@dataclass
class VoterProcess:
    """One voter: its folder, its address and, while it runs, its process."""

    node_id: int
    folder: Path
    port: int
    host: str = "127.0.0.1"
    prefix: Sequence[str] = ()
    """Command before python, for example ``ip netns exec NAME``."""
    module: str = "tests.cluster.voter"
    process: subprocess.Popen[bytes] | None = None
    paused: bool = False
    _side: socket.socket | None = None
    _answers: BinaryIO | None = field(default=None, repr=False)

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        (self.folder / "side").unlink(missing_ok=True)
        command = [*self.prefix, sys.executable, "-m", self.module]
        with (self.folder / "voter.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(self.folder / "voter.properties")],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
                stdout=log,
                stderr=log,
            )

    def signal(self, number: signal.Signals) -> None:
        if self.process is None:
            raise AssertionError(f"voter {self.node_id} does not run")
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._ended()

    def stop(self, within_s: float = 60.0) -> int:
        """A clean stop; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self._ended(within_s)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        self.signal(signal.SIGCONT)
        self.paused = False

    def _ended(self, within_s: float = 60.0) -> int:
        if self.process is None:
            return 0
        code = self.process.wait(within_s)
        self.process = None
        self.hang_up()
        return code

    def hang_up(self) -> None:
        if self._answers is not None:
            self._answers.close()
        if self._side is not None:
            self._side.close()
        self._side = self._answers = None

    def ask(self, within_s: float = 8.0, **request: str) -> dict[str, Any] | None:
        """One request through the side door; None if the process does not answer."""
        if not self.alive or self.paused:
            return None
        try:
            if self._side is None:
                self._side = self._connect()
                self._answers = self._side.makefile("rb")
            self._side.settimeout(within_s)
            self._side.sendall(json.dumps(request).encode() + b"\n")
            line = self._answers.readline() if self._answers else b""
            return dict(json.loads(line))
        except (OSError, ValueError):
            self.hang_up()
            return None

    def _connect(self) -> socket.socket:
        side = socket.socket(socket.AF_UNIX)
        side.settimeout(1.0)
        try:
            side.connect(str(self.folder / "side"))
        except OSError:
            side.close()
            raise
        return side

    def look(self) -> dict[str, Any] | None:
        return self.ask(do="look")

    def log_text(self) -> str:
        return (self.folder / "voter.log").read_text()


class Quorum:
    """Several voters on this machine."""

    def __init__(self, folder: Path, size: int, options: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.options = {**FAST, **(options or {})}
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self.unknown: list[str] = []
        self._words = 0
        self.voters = [
            VoterProcess(node_id, self._folder_of(node_id), port) for node_id, port in enumerate(free_ports(size), 1)
        ]

    def _folder_of(self, node_id: int) -> Path:
        folder = self.folder / f"voter-{node_id}"
        folder.mkdir()
        return folder

    def configure(self) -> None:
        """Write every voter's configuration."""
        members = ",".join(f"{voter.node_id}@{voter.endpoint}" for voter in self.voters)
        for voter in self.voters:
            self.write_config(voter, {"controller.quorum.voters": members})

    def write_config(self, voter: VoterProcess, more: dict[str, str]) -> None:
        config = {
            "process.roles": "controller",
            "node.id": str(voter.node_id),
            "rookery.cluster.id": CLUSTER_ID,
            "log.dirs": str(voter.folder / "data"),
            "listeners": f"CONTROLLER://{voter.endpoint}",
            **self.options,
            **more,
        }
        lines = "".join(f"{key}={value}\n" for key, value in config.items())
        (voter.folder / "voter.properties").write_text(lines)

    def start(self) -> None:
        self.configure()
        for voter in self.voters:
            voter.start()

    def close(self) -> None:
        for voter in self.voters:
            if voter.alive:
                voter.kill()
            voter.hang_up()

    def leader(self, within_s: float = 15.0) -> VoterProcess:
        """The one that leads the highest epoch, as soon as it says so."""

        def find() -> VoterProcess | None:
            looks = [(voter, voter.look()) for voter in self.voters]
            leaders = [(look["epoch"], voter) for voter, look in looks if look and look["leads"]]
            highest = max((look["epoch"] for _, look in looks if look), default=-1)
            return next((voter for epoch, voter in leaders if epoch == highest), None)

        return eventually("a voter leads", find, within_s)

    def propose(self, count: int, within_s: float = 30.0) -> None:
        """Have `count` new words acknowledged, by whoever leads, however often that changes."""
        deadline = time.monotonic() + within_s
        wanted = len(self.acknowledged) + count
        while len(self.acknowledged) < wanted:
            if time.monotonic() > deadline:
                raise AssertionError(f"{wanted - len(self.acknowledged)} of {count} words not acknowledged in time")
            leader = self.leader(max(deadline - time.monotonic(), 0.1))
            self._words += 1
            word = f"word-{self._words}"
            answer = leader.ask(do="propose", word=word)
            if answer is not None and "offset" in answer:
                self.acknowledged[word] = (answer["offset"], answer["epoch"])
            elif answer is None or "unknown" in answer:
                self.unknown.append(word)

    def converge(self, within_s: float = 20.0) -> list[str]:
        """Wait until every running voter holds the same list; returns it."""

        def same() -> bool:
            looks = [voter.look() for voter in self.voters if voter.alive and not voter.paused]
            return all(looks) and len({look["digest"] for look in looks if look}) == 1

        self.propose(1)  # a record of the present epoch: what is before it is settled
        eventually("all voters hold the same list", same, within_s)
        answer = self.leader().ask(do="words")
        return list(answer["words"]) if answer else []

    def check(self) -> None:
        """One leader per epoch; nothing acknowledged lost, nothing twice, nothing invented."""
        words = self.converge()
        assert len(words) == len(set(words))
        missing = [word for word in self.acknowledged if word not in set(words)]
        assert missing == []
        assert set(words) <= {*self.acknowledged, *self.unknown}
        order = [word for word in words if word in self.acknowledged]
        assert order == sorted(order, key=lambda word: self.acknowledged[word][0])
        leaders: dict[int, int] = {}
        for lead in self.leads():
            assert leaders.setdefault(lead["epoch"], lead["node"]) == lead["node"]

    def leads(self) -> list[dict[str, int]]:
        files = [voter.folder / "leads.jsonl" for voter in self.voters]
        return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]

    def logs(self) -> str:
        return "\n".join(f"--- voter {voter.node_id}\n{voter.log_text()[-3000:]}" for voter in self.voters)


@contextmanager
def quorum(folder: Path, size: int, options: dict[str, str] | None = None) -> Iterator[Quorum]:
    """A started quorum that is gone at the end; on failure the ends of the logs are printed."""
    with running(Quorum(folder, size, options)) as made:
        yield made


@contextmanager
def running(made: Quorum) -> Iterator[Quorum]:
    try:
        made.start()
        yield made
    except BaseException:
        print(made.logs())
        raise
    finally:
        made.close()
