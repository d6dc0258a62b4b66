"""kcat, the command line's client."""

import json
import subprocess
from typing import Any

from tests import needs
from tests.interop.peers.peer import CODECS, PATIENCE_S, RECORDS, Seen, key, value


class Kcat:
    name = "kcat"
    sets_timestamps = False
    deletes = False

    def create(self, bootstrap: str, topic: str, partitions: int) -> None:
        """It has no call for this: topics come to be when it writes to them, with `num.partitions` partitions."""

    def delete(self, bootstrap: str, topic: str) -> None:
        raise NotImplementedError("kcat cannot delete topics")

    def write(self, bootstrap: str, topic: str) -> None:
        lines = b"".join(key(number) + b":" + value(number) + b"\n" for number in range(RECORDS)).decode()
        for partition, codec in enumerate(CODECS):
            place = ("-P", "-t", topic, "-p", str(partition), "-X", f"compression.type={codec}")
            _run(bootstrap, *place, "-K:", "-H", f"from={self.name}", text=lines)

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Seen]:
        return _read(bootstrap, topic, partition, str(offset), count)

    def since(self, bootstrap: str, topic: str, partition: int, timestamp: int, count: int) -> list[Seen]:
        return _read(bootstrap, topic, partition, f"s@{timestamp}", count)


def _run(bootstrap: str, *words: str, text: str | None = None) -> str:
    kcat = needs.command("kcat", "it is one of the clients")
    command = [kcat, "-q", "-m", str(PATIENCE_S), "-b", bootstrap, *words]
    return subprocess.run(command, input=text, stdout=-1, text=True, check=True, timeout=2 * PATIENCE_S).stdout


def _read(bootstrap: str, topic: str, partition: int, start: str, count: int) -> list[Seen]:
    place = ("-C", "-t", topic, "-p", str(partition), "-o", start, "-c", str(count))
    return [_seen(json.loads(line)) for line in _run(bootstrap, *place, "-J").splitlines()]


def _seen(message: dict[str, Any]) -> Seen:
    names = message.get("headers") or []
    headers = tuple(zip(names[::2], (text.encode() for text in names[1::2]), strict=True))
    return Seen(
        message["topic"],
        message["partition"],
        message["offset"],
        message["ts"],
        message["key"].encode(),
        message["payload"].encode(),
        headers,
    )
