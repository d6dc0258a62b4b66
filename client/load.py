"""Load on a cluster, measured from a client: how many records, how fast, how late."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from rookery.client.consumer import Consumer
from rookery.client.errors import KafkaTimeoutError
from rookery.client.producer import Producer
from rookery.client.types import TopicPartition

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PERCENTILES = (50, 95, 99)
WARM = 10
READ_CHUNK = 5_000
SILENCE_S = 30.0
TEXTS = 256
"""Values of text that take turns: more than fit into a batch, so that a codec gains nothing from their turns."""
LINE_BYTES = 50


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one load."""

    what: str
    records: int
    size: int
    seconds: float
    latencies_ms: Sequence[float] = ()

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "what": self.what,
            "records": self.records,
            "seconds": round(self.seconds, 3),
            "records/s": round(self.records / self.seconds) if self.seconds else 0,
            "MB/s": round(self.size / 1e6 / self.seconds, 2) if self.seconds else 0.0,
        }
        ordered = sorted(self.latencies_ms)
        for percent in PERCENTILES:
            row[f"p{percent}-ms"] = percentile(ordered, percent)
        row["max-ms"] = percentile(ordered, 100)
        return row


def ratio(sent: int, stored: int) -> float | str:
    """How much smaller records are in the log than their values were; "-" if the size of the log is not known."""
    return round(sent / stored, 2) if stored > 0 else "-"


COLUMNS = ("what", "records", "seconds", "records/s", "MB/s", *(f"p{each}-ms" for each in PERCENTILES), "max-ms")


def percentile(ordered: Sequence[float], percent: int) -> float | str:
    """The smallest value that `percent` of all do not exceed; "-" if there is none."""
    if not ordered:
        return "-"
    return round(ordered[max(-(-len(ordered) * percent // 100) - 1, 0)], 2)


def values_of(size: int, compressible: bool) -> list[bytes]:
    """Values to send in turn: random bytes, or text that compresses as logs do."""
    if not compressible:
        return [os.urandom(size) for _ in range(64)]
    dice = Random(size)
    return [b" ".join(_line(dice) for _ in range(size // LINE_BYTES + 1))[:size] for _ in range(TEXTS)]


def _line(dice: Random) -> bytes:
    """As of a web server's log: words that repeat, numbers that do not; at least `LINE_BYTES` long."""
    verb, place = dice.choice((b"GET", b"GET", b"POST")), dice.choice((b"orders", b"users", b"carts", b"invoices"))
    status = dice.choice((200, 200, 200, 304, 404))
    number, user, took = dice.randrange(10**6, 10**7), dice.randrange(10**4, 10**5), dice.randrange(10, 1000)
    return b"%s /%s/%d HTTP/1.1 %d user=%d latency=%dms" % (verb, place, number, status, user, took)


async def produce(
    options: Mapping[str, Any],
    topic: str,
    records: int,
    values: Sequence[bytes],
    rate: float = 0.0,
    what: str = "produce",
) -> Measured:
    """As fast as the producer takes them, or `rate` records a second; ends when all are acknowledged."""
    latencies: list[float] = []
    failures: list[Exception] = []
    size = 0
    async with Producer(options) as producer:
        await producer.partitions_for(topic)
        begun = time.perf_counter()
        for number in range(records):
            if rate:
                wait = begun + number / rate - time.perf_counter()
                if wait > 0:
                    await asyncio.sleep(wait)
            value = values[number % len(values)]
            size += len(value)
            sent = time.perf_counter()

            def acknowledged(_: Any, error: Exception | None, sent: float = sent) -> None:
                if error is not None:
                    failures.append(error)
                latencies.append((time.perf_counter() - sent) * 1000)

            await producer.send(topic, value, on_delivery=acknowledged)
        await producer.flush()
        seconds = time.perf_counter() - begun
    if failures:
        raise failures[0]
    return Measured(what, records, size, seconds, latencies)


async def consume(options: Mapping[str, Any], topic: str, records: int | None) -> Measured:
    """From the beginning, without a group, up to where the topic ends now."""
    async with Consumer({**options, "auto.offset.reset": "earliest"}) as consumer:
        places = [TopicPartition(topic, place.partition) for place in await consumer.partitions_for(topic)]
        consumer.assign(places)
        firsts, ends = await consumer.beginning_offsets(*places), await consumer.end_offsets(*places)
        there = sum(ends[place] - firsts[place] for place in places)
        wanted = there if records is None else min(records, there)
        consumer.seek_to_beginning(*places)
        count = size = 0
        begun = last_at = time.perf_counter()
        while count < wanted:
            found = await consumer.getmany(timeout_ms=500, max_records=min(READ_CHUNK, wanted - count))
            count += len(found)
            size += sum(len(record.value or b"") for record in found)
            now = time.perf_counter()
            if found:
                last_at = now
            elif now - last_at > SILENCE_S:  # offsets without records: compaction, or markers of transactions
                break
        return Measured("consume", count, size, time.perf_counter() - begun)


async def end_to_end(
    options: Mapping[str, Any], producing: Mapping[str, Any], topic: str, records: int, values: Sequence[bytes]
) -> Measured:
    """One record at a time: from the call of `send` to the record at a consumer. `producing` has options that are for
    the producer alone."""
    latencies: list[float] = []
    reading, writing = {**options, "auto.offset.reset": "latest"}, {**options, **producing}
    async with Consumer(reading) as consumer, Producer(writing) as producer:
        consumer.assign(await consumer.partitions_for(topic))
        for place in consumer.assignment:
            await consumer.position(place)
        begun = time.perf_counter()
        for number in range(records + WARM):
            if number == WARM:
                begun = time.perf_counter()
            mark = b"%d " % number
            sent = time.perf_counter()
            await producer.send(topic, values[number % len(values)], key=mark)
            deadline = sent + SILENCE_S
            while not any(record.key == mark for record in await consumer.getmany(timeout_ms=500)):
                if time.perf_counter() > deadline:
                    raise KafkaTimeoutError(f"record {number} of {topic} was not read within {SILENCE_S:g} s")
            if number >= WARM:
                latencies.append((time.perf_counter() - sent) * 1000)
        seconds = time.perf_counter() - begun
    return Measured("e2e", records, sum(len(values[n % len(values)]) for n in range(records)), seconds, latencies)
