"""Members of consumer groups as processes, whatever they are written in."""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.local import wait_for
from tests.interop.go_programs import go_program
from tests.interop.group_member import SESSION_MS
from tests.interop.java import toolchain

ROOT = Path(__file__).parents[2]
JOIN_S = 30.0


class MemberProcess:
    """Collects what a member says."""

    def __init__(self, words: list[str]) -> None:
        self.assigned: list[tuple[str, int]] = []
        self.assignments = 0
        """How many times the assignment changed."""
        self.records: list[tuple[int, int, str]] = []
        self.said: list[dict[str, Any]] = []
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the process has ended
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=ROOT
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            said = json.loads(line)
            self.said.append(said)
            if "assigned" in said:
                self.assigned = [(topic, partition) for topic, partition in said["assigned"]]
                self.assignments += 1
            elif "record" in said:
                _, partition, offset, value = said["record"]
                self.records.append((partition, offset, value))
            elif "value" in said:
                self.records.append((said["partition"], said["offset"], said["value"]))

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        if not self._errors.closed:
            self._process.kill()
            self.ended()

    def stop(self) -> None:
        """Leave the group in order."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.ended()

    def ended(self, timeout_s: float = 60.0) -> None:
        """Wait until it has ended by itself."""
        try:
            self._process.wait(timeout_s)
        finally:
            self._process.kill()
            self._process.wait(10)
            self._reader.join(10)
            self._errors.seek(0)
            print(self._errors.read()[-2000:])  # shown by pytest where a test fails
            for pipe in (self._process.stdin, self._process.stdout, self._errors):
                if pipe is not None:
                    pipe.close()


def start(client: str, bootstrap: str, group: str, topic: str, **options: Any) -> MemberProcess:
    if client == "java":
        words = [*toolchain.command("GroupMember"), bootstrap, group, topic, options.get("strategy", "range")]
        words += [options.get("instance") or "-", str(options.get("session_ms", SESSION_MS))]
        return MemberProcess([*words, options.get("protocol", "classic")])
    if client == "kafka-go":
        return MemberProcess([go_program("readers"), "member", bootstrap, group, topic])
    if client == "franz-go":
        words = [go_program("members"), bootstrap, group, topic, options.get("protocol", "classic")]
        return MemberProcess([*words, options.get("instance") or "-"])
    module = "tests.interop.group_member"
    return MemberProcess([sys.executable, "-m", module, client, bootstrap, group, topic, json.dumps(options)])


@contextmanager
def members(*started: MemberProcess) -> Iterator[list[MemberProcess]]:
    """Members that are gone when the block ends."""
    all_members = list(started)
    try:
        yield all_members
    finally:
        for member in all_members:
            member.kill()


def shares(group: list[MemberProcess]) -> list[int]:
    return sorted(len(member.assigned) for member in group)


def wait_for_shares(group: list[MemberProcess], expected: list[int], timeout_s: float = JOIN_S) -> None:
    """Wait until everybody has its share and no partition has two owners."""

    def settled() -> bool:
        owned = [partition for member in group for partition in member.assigned]
        return shares(group) == sorted(expected) and len(owned) == len(set(owned))

    try:
        wait_for(settled, f"shares of {expected}", timeout_s)
    except AssertionError:
        raise AssertionError(f"shares are {shares(group)}, not {expected}") from None
