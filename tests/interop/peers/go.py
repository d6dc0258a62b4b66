"""kafka-go, by a small program that is compiled under build/."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.interop.go_programs import go_program
from tests.interop.peers.peer import BASE_MS, PATIENCE_S, RECORDS, Seen


def run(*words: object) -> list[dict[str, Any]]:
    """What the program says, line by line."""
    done = subprocess.run(
        [go_program("topics"), *map(str, words)], capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S
    )
    if done.returncode != 0:
        raise RuntimeError(f"kafka-go, {words[0]}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class KafkaGo:
    name = "kafka-go"
    sets_timestamps = True
    deletes = True

    def create(self, bootstrap: str, topic: str, partitions: int) -> None:
        run("create", bootstrap, topic, partitions)

    def delete(self, bootstrap: str, topic: str) -> None:
        run("delete", bootstrap, topic)

    def write(self, bootstrap: str, topic: str) -> None:
        run("write", bootstrap, topic, RECORDS, BASE_MS)

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Seen]:
        return list(map(_seen, run("read", bootstrap, topic, partition, offset, count)))

    def since(self, bootstrap: str, topic: str, partition: int, timestamp: int, count: int) -> list[Seen]:
        return list(map(_seen, run("since", bootstrap, topic, partition, timestamp, count)))


def _seen(line: dict[str, Any]) -> Seen:
    headers = tuple((name, text.encode()) for name, text in line["headers"])
    key, value = line["key"].encode(), line["value"].encode()
    return Seen(line["topic"], line["partition"], line["offset"], line["ms"], key, value, headers)


class Started:
    """The program while it runs."""

    def __init__(self, words: tuple[object, ...]) -> None:
        self.said: list[dict[str, Any]] = []
        self.process = subprocess.Popen([go_program("topics"), *map(str, words)], stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.said.append(json.loads(line))

    def end(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

    @property
    def lines(self) -> int:
        return len(self.said)


@contextmanager
def started(*words: object) -> Iterator[Started]:
    """The program at work; it has ended when the block does."""
    running = Started(words)
    try:
        yield running
        running.process.wait(PATIENCE_S)
    finally:
        running.end()
