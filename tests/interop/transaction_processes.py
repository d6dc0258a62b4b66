"""Clients with transactional ids as processes, whatever they are written in.

`transaction_client.py` describes what they are told and what they say.
"""

import json
import queue
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.interop.go_programs import go_program
from tests.interop.java import toolchain

SILENCE_S = 120.0
"""Longer than the longest timeout of any client."""
ROOT = Path(__file__).parents[2]
PYTHON = ("confluent", "kafka-python", "aiokafka")


class ClientProcess:
    def __init__(self, words: list[str]) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the process has ended
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=ROOT
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._said.put(line)
        self._said.put("")

    def listen(self) -> dict[str, Any]:
        """The next thing it says."""
        try:
            line = self._said.get(timeout=SILENCE_S)
        except queue.Empty:
            raise AssertionError(f"{self._process.args!r} says nothing") from None
        if not line:
            self._errors.seek(0)
            raise AssertionError(f"{self._process.args!r} ended: {self._errors.read()[-3000:]}")
        return dict(json.loads(line))

    def tell(self, line: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def ask(self, line: str) -> dict[str, Any]:
        self.tell(line)
        return self.listen()

    def do(self, *lines: str) -> None:
        """Commands that must succeed."""
        for line in lines:
            answer = self.ask(line)
            assert answer == {"ok": True}, f"{line}: {answer}"

    def refused(self, *lines: str) -> str:
        """What the first command that fails says: the error's name and text. Some clients wrap the cause into an
        error with a general name once their background sender has met it."""
        for line in lines:
            answer = self.ask(line)
            if "error" in answer:
                print(line, answer)
                return f"{answer['error']}: {answer.get('text', '')}"
        raise AssertionError(f"none of {lines} was refused")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)
        self._reader.join(30)
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def words_of(client: str, *arguments: object) -> list[str]:
    if client in PYTHON:
        words = [sys.executable, "-m", "tests.interop.transaction_client", client]
    elif client == "franz-go":
        words = [go_program("transactions")]
    else:
        words = toolchain.command("Transactions")
    return [*words, *map(str, arguments)]
