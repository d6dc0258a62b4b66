"""Batches that are encoded already, for writers that have records in columns of their own: Spark's sink.

They share all the rest with other batches: numbers, retries, splitting, transactions.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rookery.client.producer.batch import Batch
from rookery.client.producer.producer import Producer
from rookery.core.net.cluster import Cluster
from rookery.core.wire.primitives import Buffer


@dataclass(frozen=True, slots=True)
class Encoded:
    """Encoded records: offsets relative to 0, all with the same time."""

    records: Buffer
    count: int
    timestamp: int


async def producer_over(cluster: Cluster, options: Mapping[str, Any]) -> Producer:
    """A started producer that uses connections of another owner, which stay open when it closes."""
    producer = Producer(options)
    producer._session.adopt(cluster)
    await producer.start()
    return producer


async def send_encoded(producer: Producer, topic: str, partition: int, records: Encoded) -> Batch:
    """Put one batch into the buffer, waiting for room; it goes out behind what was sent to the partition before."""
    sender = producer._running()
    transaction = None if producer._state is None else producer._state.check_open()
    route = await producer._routing().find(topic, partition, producer.max_block_s)
    size = len(records.records)
    if sender.crowded or not sender.accumulator.has_room(size):
        await sender.wait_for_room(size, producer.max_block_s)
        if producer._state is not None:
            producer._state.check_open(transaction)
    batch = sender.accumulator.enclose(route.queues[partition], records.timestamp, records.records, records.count)
    sender.kick()
    await asyncio.sleep(0)
    return batch
