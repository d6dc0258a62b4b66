"""CPU time of record batches: the header path of a broker, records in and out beside peers, and the codecs."""

import random
import time
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from rookery.core.wire.compression import Codec, compress, decompress
from rookery.core.wire.records import (
    Record,
    RecordHeader,
    build_batch,
    read_header,
    read_records,
    stamp,
    stamp_append_time,
    validate_produce_batch,
    validate_replica_batches,
    verify,
)
from tests.bench.bench_wire import Work, measure

NOW = 1_700_000_000_000
MIB = 1024 * 1024
LEVELS = [
    (Codec.GZIP, 1),
    (Codec.GZIP, None),
    (Codec.SNAPPY, None),
    (Codec.LZ4, None),
    (Codec.LZ4, 12),
    (Codec.ZSTD, None),
    (Codec.ZSTD, 9),
]


def _records(count: int, size: int, headers: int = 0) -> list[Record]:
    rng = random.Random(1)
    pairs = [RecordHeader(f"header-{n}", b"content") for n in range(headers)]
    return [Record(i, NOW + i, b"key-%d" % i, rng.randbytes(size), pairs) for i in range(count)]


def header_path() -> None:
    print("\nµs per batch, in place, whatever the records are")
    print(f"{'':34}{'1 KB':>10}{'16 KB':>10}{'1 MB':>10}")
    rows: dict[str, list[float]] = {}
    for size in (1000, 16_000, 1_000_000):
        for what, taken in measure(_header_work(build_batch(_records(10, size // 10)))).items():
            rows.setdefault(what, []).append(taken)
    for what, cells in rows.items():
        print(f"{what:34}" + "".join(f"{cell:10.2f}" for cell in cells))


def _header_work(batch: bytearray) -> dict[str, Work]:
    view = memoryview(batch)
    header = read_header(view)
    room = len(batch)
    timed = memoryview(bytearray(batch))

    def produce() -> None:
        validate_produce_batch(view, room)
        stamp(view, 0, 0, 7)

    return {
        "read the header": lambda: read_header(view),
        "checksum": lambda: verify(view, 0, header),
        "stamp offset and epoch": lambda: stamp(view, 0, 0, 7),
        "produce: read, check, stamp": produce,
        "follower: read, check": lambda: validate_replica_batches(view, 0),
        "stamp append time, new checksum": lambda: stamp_append_time(timed, 0, NOW),
        "(a copy, which nothing here makes)": lambda: bytes(view),
    }


def _build_with(builder: type[Any], records: list[Any]) -> bytes:
    theirs = builder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=16 * MIB,
    )
    for offset, timestamp, key, value, headers in records:
        theirs.append(offset, timestamp, key, value, headers)
    return bytes(theirs.build())


def _read_with(batch: type[Any], data: bytes) -> list[object]:
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch(data)]


def _record_work(records: list[Record]) -> dict[str, dict[str, Work]]:
    data = bytes(build_batch(records))
    theirs = [(*record[:4], [tuple(header) for header in record.headers]) for record in records]
    return {
        "decode": {
            "ours": lambda: read_records(data),
            "aio": lambda: _read_with(AioBatch, data),
            "kpy": lambda: _read_with(KafkaPythonBatch, data),
        },
        "build": {
            "ours": lambda: build_batch(records),
            "aio": lambda: _build_with(AioBuilder, theirs),
            "kpy": lambda: _build_with(KafkaPythonBuilder, theirs),
        },
    }


def records_beside_peers() -> None:
    print("\nµs per batch of 100 records; aiokafka is compiled from Cython, the others are Python")
    print(f"{'':34}{'ours':>10}{'aiokafka':>10}{'kpy':>10}{'ours/aio':>10}{'kpy/ours':>10}")
    for title, records in {
        "100 B values": _records(100, 100),
        "1000 B values": _records(100, 1000),
        "100 B values, 3 headers": _records(100, 100, headers=3),
    }.items():
        for what, contestants in _record_work(records).items():
            taken = measure(contestants)
            ours, aio, kpy = taken["ours"], taken["aio"], taken["kpy"]
            cells = f"{ours:10.1f}{aio:10.1f}{kpy:10.1f}{ours / aio:10.1f}{kpy / ours:10.1f}"
            print(f"{what + ', ' + title:34}{cells}")


def _text(size: int) -> bytes:
    rng = random.Random(2)
    line = b'{"device": "sensor-%04d", "at": %d, "celsius": %.2f, "state": "%s"}\n'
    return b"".join(
        line % (rng.randrange(500), NOW + rng.randrange(10**6), rng.gauss(20, 5), rng.choice((b"ok", b"hot")))
        for _ in range(size // len(line))
    )


def codecs() -> None:
    print("\nMB of records per second of CPU (1 MB of JSON lines; incompressible bytes); ratio = size / compressed")
    head = f"{'ratio':>8}{'compress':>10}{'decompr.':>10}{'noise in':>10}{'noise out':>10}"
    print(f"{'':12}{'level':>8}{head}")
    text, noise = _text(MIB), random.Random(3).randbytes(MIB)
    for codec, level in LEVELS:
        packed = bytes(compress(codec, text, level))
        shown = "default" if level is None else str(level)
        cells = "".join(f"{rate:10.0f}" for data in (text, noise) for rate in _rates(codec, level, data))
        print(f"{codec.name.lower():12}{shown:>8}{len(text) / len(packed):8.1f}{cells}")


def _rates(codec: Codec, level: int | None, data: bytes) -> tuple[float, float]:
    packed = bytes(compress(codec, data, level))
    return (
        _rate(lambda: compress(codec, data, level), len(data)),
        _rate(lambda: decompress(codec, packed, 2 * MIB), len(data)),
    )


def _rate(work: Work, size: int) -> float:
    """MB per second of CPU, the best of three turns of a tenth of a second."""
    best = 0.0
    for _ in range(3):
        count, begun = 0, time.process_time()
        while (taken := time.process_time() - begun) < 0.1:
            work()
            count += 1
        best = max(best, count * size / 1e6 / taken)
    return best


def main() -> None:
    header_path()
    records_beside_peers()
    codecs()


if __name__ == "__main__":
    main()
