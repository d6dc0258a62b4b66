"""A member of a consumer group in a process of its own, so that it can be killed.

    python -m tests.interop.group_member CLIENT BOOTSTRAP GROUP TOPIC '{"instance": "a", "strategy": "range"}'

It writes one JSON object per line: what it is assigned whenever that changes, and each record it reads. It leaves the
group when its standard input ends. A topic that begins with ^ is a pattern.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

SESSION_MS = 6_000
HEARTBEAT_MS = 500
POLL_MS = 100
METADATA_MS = 1_000
PATIENT_POLL_MS = 2_000
"""kafka-python forgets a rebalance that does not end within one poll."""


class Output:
    """Says what changes."""

    def __init__(self) -> None:
        self._assigned: list[list[Any]] | None = None

    def assigned(self, partitions: Iterable[Any]) -> None:
        now = sorted([each.topic, each.partition] for each in partitions)
        if now != self._assigned:
            self._assigned = now
            _say({"assigned": now})

    def record(self, topic: str | None, partition: int | None, offset: int | None, value: bytes | None) -> None:
        _say({"record": [topic, partition, offset, (value or b"").decode()]})


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def confluent(bootstrap: str, group: str, topic: str, options: dict[str, Any], stop: threading.Event) -> None:
    from confluent_kafka import Consumer

    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": METADATA_MS,
        "auto.commit.interval.ms": 500,
        "log_level": 0,
    }
    if options.get("protocol") == "consumer":
        config["group.protocol"] = "consumer"
        if options.get("strategy"):
            config["group.remote.assignor"] = options["strategy"]
    else:
        config["session.timeout.ms"] = options.get("session_ms", SESSION_MS)
        config["heartbeat.interval.ms"] = HEARTBEAT_MS
        config["partition.assignment.strategy"] = options.get("strategy", "range")
    if options.get("instance"):
        config["group.instance.id"] = options["instance"]
    consumer = Consumer(config)
    consumer.subscribe([topic])
    output = Output()
    while not stop.is_set():
        message = consumer.poll(POLL_MS / 1000)
        output.assigned(consumer.assignment())
        if message is not None and message.error() is None:
            output.record(message.topic(), message.partition(), message.offset(), message.value())
    consumer.close()


def aiokafka(bootstrap: str, group: str, topic: str, options: dict[str, Any], stop: threading.Event) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    async def main() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=METADATA_MS,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        if topic.startswith("^"):
            consumer.subscribe(pattern=topic)
        else:
            consumer.subscribe([topic])
        await consumer.start()
        output = Output()
        while not stop.is_set():
            batches = await consumer.getmany(timeout_ms=POLL_MS)
            output.assigned(consumer.assignment())
            for partition, messages in batches.items():
                for message in messages:
                    output.record(partition.topic, partition.partition, message.offset, message.value)
        await consumer.stop()

    asyncio.run(main())


def kafka_python(bootstrap: str, group: str, topic: str, options: dict[str, Any], stop: threading.Event) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=METADATA_MS,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    if topic.startswith("^"):
        consumer.subscribe(pattern=topic)
    else:
        consumer.subscribe([topic])
    output = Output()
    while not stop.is_set():
        batches = consumer.poll(PATIENT_POLL_MS)
        output.assigned(consumer.assignment())
        for partition, messages in batches.items():
            for message in messages:
                output.record(partition.topic, partition.partition, message.offset, message.value)
    consumer.close()


def rookery(bootstrap: str, group: str, topic: str, options: dict[str, Any], stop: threading.Event) -> None:
    """Our own client, among those of others."""
    from rookery import Consumer

    given: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": METADATA_MS}
    given |= {"group_id": group, "auto_commit_interval_ms": 500, "group_instance_id": options.get("instance")}
    if options.get("protocol") == "consumer":
        given |= {"group_protocol": "consumer", "group_remote_assignor": options.get("strategy")}
    else:
        given |= {"session_timeout_ms": options.get("session_ms", SESSION_MS), "heartbeat_interval_ms": HEARTBEAT_MS}
        given["partition_assignment_strategy"] = options.get("strategy", "range")

    async def main() -> None:
        output = Output()
        async with Consumer(bootstrap_servers=bootstrap, **given) as consumer:
            if topic.startswith("^"):
                consumer.subscribe(pattern=topic)
            else:
                consumer.subscribe(topic)
            while not stop.is_set():
                records = await consumer.getmany(timeout_ms=POLL_MS)
                output.assigned(consumer.assignment)
                for record in records:
                    output.record(record.topic, record.partition, record.offset, record.value)

    asyncio.run(main())


CLIENTS: dict[str, Callable[[str, str, str, dict[str, Any], threading.Event], None]] = {
    "confluent": confluent,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
    "rookery": rookery,
}


def main() -> None:
    client, bootstrap, group, topic, options = sys.argv[1:]
    stop = threading.Event()

    def until_end() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=until_end, daemon=True).start()
    CLIENTS[client](bootstrap, group, topic, json.loads(options), stop)


if __name__ == "__main__":
    main()
