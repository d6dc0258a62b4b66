"""The pipelines of this machine: one file for each, which its driver keeps up to date while it holds a lock on it.

A driver that is alive holds the lock, whatever its process id; one that was killed has lost it. So a file that says
`running` without a lock is that of a crash.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RUNNING, DONE, FAILED, STOPPED, CRASHED = "running", "done", "failed", "stopped", "crashed"


@dataclass(slots=True)
class Run:
    """What is known of a pipeline's last run."""

    name: str
    file: str
    state: str = RUNNING
    pid: int = 0
    started: str = ""
    ended: str = ""
    cluster: str = ""
    master: str = ""
    checkpoint: str = ""
    output: str = ""
    metrics: str = ""
    error: str = ""
    queries: list[dict[str, Any]] = field(default_factory=list)

    def figure(self, key: str) -> int | None:
        """Over the queries, the first of which has the rows; None if unknown."""
        return self.queries[0].get(key) if self.queries else None


class AlreadyRunningError(Exception):
    """A driver holds the lock of this pipeline."""


def runs_folder(environ: Mapping[str, str]) -> Path:
    """`~/.local/state/rookery/pipelines`, or under $XDG_STATE_HOME."""
    home = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".local" / "state")
    return Path(home) / "rookery" / "pipelines"


class Runs:
    """The files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def claimed(self, run: Run) -> Iterator[None]:
        """Hold a pipeline's lock, so that no second driver runs it from this machine."""
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._lock(run.name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                last = self.find(run.name)
                pid = "" if last is None else f" as process {last.pid}"
                raise AlreadyRunningError(
                    f"pipeline {run.name} is running{pid}; `rookery pipeline stop {run.name}` stops it"
                ) from None
            self.save(run)
            yield
        finally:
            os.close(descriptor)

    def save(self, run: Run) -> None:
        path = self._folder / f"{run.name}.json"
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(asdict(run), indent=1))
        beside.replace(path)

    def find(self, name: str) -> Run | None:
        try:
            run = Run(**json.loads((self._folder / f"{name}.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None
        if run.state == RUNNING and not self._is_locked(name):
            run.state = CRASHED
        return run

    def all(self) -> list[Run]:
        found = (self.find(path.stem) for path in sorted(self._folder.glob("*.json")))
        return [run for run in found if run is not None]

    def _lock(self, name: str) -> Path:
        return self._folder / f"{name}.lock"

    def _is_locked(self, name: str) -> bool:
        try:
            descriptor = os.open(self._lock(name), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False
