"""The Java client's record batch classes, asked through RecordBatches.java."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from rookery.core.wire.compression import Codec
from rookery.core.wire.markers import EndMarker
from rookery.core.wire.records import Record, RecordHeader
from tests.interop.java import toolchain


class JavaError(Exception):
    """The Java client threw an exception."""


class JavaBatches:
    """One JVM that builds and reads batches until it is closed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            toolchain.command("RecordBatches"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def _ask(self, *words: object) -> Any:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the JVM was started without pipes")
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, dict) and "error" in answer:
            raise JavaError(answer["error"])
        return answer

    def build(
        self,
        records: Sequence[Record],
        codec: Codec,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        leader_epoch: int = -1,
    ) -> bytes:
        flag = "true" if transactional else "false"
        numbers = (records[0].offset, producer_id, producer_epoch, base_sequence, flag, leader_epoch)
        return bytes.fromhex(self._ask("build", codec.name.lower(), *numbers, *map(_word, records)))

    def marker(
        self, marker: EndMarker, producer_id: int, producer_epoch: int, timestamp: int, offset: int, leader_epoch: int
    ) -> bytes:
        kind = "COMMIT" if marker.commit else "ABORT"
        numbers = (producer_id, producer_epoch, marker.coordinator_epoch, timestamp, offset, leader_epoch)
        return bytes.fromhex(self._ask("marker", kind, *numbers))

    def read(self, batches: bytes | bytearray) -> list[dict[str, Any]]:
        """Each batch's fields, checksums verified; `records` are our records."""
        answer: list[dict[str, Any]] = self._ask("read", batches.hex())
        return [batch | {"records": [_record(*fields) for fields in batch["records"]]} for batch in answer]

    def errors(self) -> list[tuple[int, str, bool, bool]]:
        """Code, name, whether it is retriable, and whether it asks for fresh metadata, of every error."""
        return [(code, name, retriable, stale) for code, name, retriable, stale in self._ask("errors")]


def _word(record: Record) -> str:
    fields = [str(record.offset), str(record.timestamp), _hex(record.key), _hex(record.value)]
    for key, value in record.headers:
        fields += (key.encode().hex(), _hex(value))
    return ",".join(fields)


def _hex(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _record(
    offset: int, timestamp: int, key: str | None, value: str | None, headers: list[tuple[str, str | None]]
) -> Record:
    pairs = [RecordHeader(bytes.fromhex(name).decode(), _bytes(content)) for name, content in headers]
    return Record(offset, timestamp, _bytes(key), _bytes(value), pairs)
