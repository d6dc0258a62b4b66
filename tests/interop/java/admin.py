"""The Java client's admin, asked through AdminCalls.java."""

import json
import subprocess
from typing import Any

from tests.interop.java import toolchain


class JavaAdminError(Exception):
    """The call ended with an exception; `name` is its class."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class JavaAdmin:
    """One JVM that asks until it is closed."""

    def __init__(self, bootstrap: str) -> None:
        words = [*toolchain.command("AdminCalls"), bootstrap]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def __call__(self, call: str, *words: object) -> Any:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the JVM was started without pipes")
        text = " ".join(str(word).encode().hex() or "-" for word in (call, *words))
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, dict) and "error" in answer:
            raise JavaAdminError(answer["error"], answer["message"])
        return answer
