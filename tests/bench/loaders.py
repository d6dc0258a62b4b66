"""Load on a running broker, any broker of the Kafka protocol, and what it costs the broker's process."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from rookery.core.net.connection import Connection
from rookery.core.wire.apis.produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from rookery.core.wire.records import Record, build_batch

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """CPU seconds a process has used, in nanoseconds' resolution: the id of its clock as clock_getcpuclockid(3) makes
    it. /proc/PID/stat counts ticks of 10 ms, of which a consumer's load costs a broker only a few."""
    return time.clock_gettime(~pid << 3 | 2)


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    line = next(
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


def machine_busy_s() -> float:
    """CPU seconds all cores have been busy with anything."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS


@dataclass(frozen=True, slots=True)
class Cost:
    """One load: how much, how long, what it cost the brokers, and how busy others kept the machine."""

    records: int
    bytes: int
    seconds: float
    broker_cpu_s: float
    foreign: float

    @property
    def line(self) -> str:
        rate = self.records / self.seconds
        mb = self.bytes / 1e6
        cpu = f"{self.broker_cpu_s / self.records * 1e6:>7.2f} us/rec {self.broker_cpu_s / mb * 1e3:>6.2f} ms/MB"
        return f"{rate:>10,.0f} rec/s {mb / self.seconds:>7.0f} MB/s  broker {cpu}  foreign {self.foreign:>4.0%}"


def measured(pids: list[int], work: Callable[[], tuple[int, int]]) -> Cost:
    """Run `work`, which returns records and bytes."""
    cpu, busy, own, begun = sum(map(cpu_s, pids)), machine_busy_s(), time.process_time(), time.monotonic()
    records, size = work()
    seconds = time.monotonic() - begun
    used = sum(map(cpu_s, pids)) - cpu
    foreign = machine_busy_s() - busy - used - (time.process_time() - own)
    return Cost(records, size, seconds, used, max(0.0, foreign / seconds / (os.cpu_count() or 1)))


def produce(bootstrap: str, topic: str, size: int, count: int, **options: object) -> tuple[int, int]:
    """Through librdkafka with its own batching."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 1_000_000, **options})
    value = os.urandom(size)
    failed: list[object] = []
    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic, value, on_delivery=lambda error, _: failed.append(error) if error else None
                )
                break
            except BufferError:
                producer.poll(0.01)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush(120)
    if failed or len(producer):
        raise RuntimeError(
            f"{len(failed)} of {count} records failed, {len(producer)} unanswered: {failed[:1]}"
        )
    return count, count * size


def consume(
    bootstrap: str, topic: str, partitions: int, count: int, size: int, **options: object
) -> tuple[int, int]:
    """Through librdkafka, with its queue limits raised: the defaults measure its own back-off."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 5,
            "queued.max.messages.kbytes": 500_000,
            **options,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    seen = 0
    deadline = time.monotonic() + 120
    while seen < count and time.monotonic() < deadline:
        seen += len(consumer.consume(10_000, timeout=1.0))
    consumer.close()
    return seen, seen * size


def produce_unbatched(
    bootstrap: str, topic: str, count: int, in_flight: int, acks: int = 1
) -> tuple[int, int]:
    """One record a request, `in_flight` requests at a time, almost free on the client's side."""
    batch = bytes(build_batch([Record(0, int(time.time() * 1000), None, b"x" * 100, [])]))

    async def run() -> None:
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        connection = await Connection.open(host, int(port), client_id="bench")
        version = min(connection.version_for(PRODUCE), 11)
        done = asyncio.get_running_loop().create_future()
        sent = answered = 0
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data])

        def next_one(response: object, error: BaseException | None) -> None:
            nonlocal sent, answered
            if error is not None:
                done.set_exception(error)
                return
            answered += response is not None
            if answered == count:
                done.set_result(None)
            elif sent < count:
                sent += 1
                connection.call(PRODUCE, version, request, next_one)

        for _ in range(in_flight):
            sent += 1
            connection.call(PRODUCE, version, request, next_one)
        await done
        connection.close()

    asyncio.run(run())
    return count, count * len(batch)
