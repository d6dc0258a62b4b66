"""The controller: what decisions cost, whether they stay cheap in a big cluster, and what three real ones deliver."""

import asyncio
import gc
import logging
import shutil
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from rookery.controller.state import brokers
from rookery.controller.state.defaults import Defaults
from rookery.core.metadata import records as r
from rookery.core.metadata import requests as q
from rookery.core.metadata.codec import decode, encode
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.fold import Fold
from rookery.core.metadata.image import EMPTY, Image, Partition
from rookery.core.metadata.snapshot import snapshot, state_hash
from rookery.core.metadata_log import CommittedBatch, SnapshotId
from tests.cluster.controllers import cluster
from tests.unit.controller.desk import Desk
from tests.unit.controller.state.clusters import registration

PER_TOPIC = 100
SIZES = (100, 10_000, 100_000)


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one run."""
    gc.collect()
    begun = time.process_time()
    work()
    return time.process_time() - begun


def partitioned(partitions: int, brokers_: int = 3) -> Image:
    """A cluster of `partitions` partitions with three replicas each, led evenly."""
    delta = Delta(EMPTY)
    records: list[r.Record] = [r.FeatureLevelRecord("eligible.leader.replicas.version", 1)]
    records += [registration(broker) for broker in range(1, brokers_ + 1)]
    for number in range(partitions):
        topic = UUID(int=1000 + number // PER_TOPIC)
        if number % PER_TOPIC == 0:
            records.append(r.TopicRecord(f"topic-{number // PER_TOPIC}", topic))
        replicas = tuple((number + step) % brokers_ + 1 for step in range(3))
        records.append(r.PartitionRecord(topic, number % PER_TOPIC, replicas, replicas, replicas[0]))
    for offset, record in enumerate(records):
        delta.replay(record, offset)
    return delta.apply(epoch=1).after


def decisions() -> None:
    """Requests through the single writer, on a quorum in memory: decide, encode, replay, answer."""
    print(f"{'one request':34} {'requests/s of CPU':>18} {'partitions/s':>13}")
    for partitions in (1, 10):
        desk = ready_desk()
        count = 2000 // partitions
        spent = cpu(lambda desk=desk, count=count, p=partitions: [desk.topic(f"t{n}", p, 3) for n in range(count)])  # type: ignore[misc]
        label = f"create a topic of {partitions} partition(s)"
        print(f"{label:34} {count / spent:18.0f} {count * partitions / spent:13.0f}")
    for width in (1, 100):
        desk = ready_desk()
        desk.topic("t", width, 3)
        image = desk.controller.committed
        topic, leaders = image.topics[image.topic_ids["t"]], {n: b.epoch for n, b in image.brokers.items()}
        rounds = 2000 // width
        spent = cpu(lambda d=desk, t=topic, e=leaders, n=rounds: [alter(d, t.id, e, i) for i in range(n)])  # type: ignore[misc]
        label = f"AlterPartition of {width} partition(s)"
        print(f"{label:34} {rounds / spent:18.0f} {rounds * width / spent:13.0f}")


def ready_desk() -> Desk:
    desk = Desk(session_s=1e9, queue_max=1 << 20).lead()
    for broker in (1, 2, 3):
        desk.broker(broker)
    return desk


def alter(desk: Desk, topic_id: UUID, epochs: dict[int, int], round_: int) -> None:
    """Every leader shrinks its ISRs in even rounds and expands them in odd ones; one request per leader."""
    topic = desk.controller.committed.topics[topic_id]
    by_leader: dict[int, list[q.IsrChange]] = {}
    for index, p in topic.partitions.items():
        isr = p.replicas if round_ % 2 else p.replicas[:2]
        members = tuple(q.IsrMember(broker) for broker in isr)
        change = q.IsrChange(topic_id, index, p.leader_epoch, p.partition_epoch, members)
        by_leader.setdefault(p.leader, []).append(change)
    for leader, changes in by_leader.items():
        desk.ask(q.AlterPartitionRequest(leader, epochs[leader], tuple(changes)))


def one_change() -> None:
    """One ISR change in clusters of different sizes; a copied dictionary is the peer."""
    print(f"\n{'partitions':>10} {'one change µs':>14} {'dict copy µs':>13} {'bytes/partition':>16} {'state hash ms':>14}")
    for size in SIZES:
        tracemalloc.start()
        image = partitioned(size)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        plain = {(topic.id, index): partition for topic, index, partition in image.partitions()}
        hashing = cpu(lambda image=image: state_hash(image))  # type: ignore[misc]
        print(
            f"{size:10} {changing(image) * 1e6:14.1f} {copying(plain) * 1e6:13.1f} {held / size:16.0f} {hashing * 1e3:14.1f}"
        )


def changing(image: Image, rounds: int = 2000) -> float:
    topic = UUID(int=1000)
    values = [encode(r.PartitionChangeRecord(topic, n % PER_TOPIC, isr=(1, 2))) for n in range(rounds)]

    def fold() -> None:
        follower = Fold(image)
        for n, value in enumerate(values):
            follower.on_commit(CommittedBatch(image.offset + 1 + n, 1, (value,), 0))

    return cpu(fold) / rounds


def copying(plain: dict[tuple[UUID, int], Partition]) -> float:
    rounds = max(20, 200_000 // len(plain))

    def copies() -> None:
        key = next(iter(plain))
        for _ in range(rounds):
            copied = dict(plain)
            copied[key] = plain[key]

    return cpu(copies) / rounds


def death_of_a_broker() -> None:
    print(f"\n{'partitions':>10} {'leaders lost':>12} {'decide ms':>10} {'replay ms':>10} {'µs/leader':>10}")
    for size in (10_000, 100_000):
        image = partitioned(size)
        records: list[r.Record] = []
        deciding = cpu(lambda image=image, records=records: records.extend(brokers.fence(image, 1, Defaults())))  # type: ignore[misc]
        values = tuple(encode(record) for record in records)
        batch = CommittedBatch(image.offset + 1, 1, values, 0)
        follower = Fold(image)
        replaying = cpu(lambda follower=follower, batch=batch: follower.on_commit(batch))  # type: ignore[misc]
        moved = sum(isinstance(record, r.PartitionChangeRecord) and record.leader is not None for record in records)
        total = (deciding + replaying) / moved * 1e6
        print(f"{size:10} {moved:12} {deciding * 1e3:10.1f} {replaying * 1e3:10.1f} {total:10.1f}")


def catching_up() -> None:
    image = partitioned(10_000)
    values = [encode(record) for record in snapshot(image)]
    loading = cpu(lambda: Fold().on_snapshot(SnapshotId(image.offset + 1, 1), values))
    print(f"\nsnapshot of 10,000 partitions: load {loading:.2f} s, {sum(map(len, values)) / 1e6:.1f} MB")
    change = encode(r.PartitionChangeRecord(UUID(int=1000), 0, isr=(1, 2)))
    decoding = cpu(lambda: [decode(change) for _ in range(20_000)]) / 20_000
    follower = Fold(image)
    batches = [CommittedBatch(image.offset + 1 + 100 * n, 1, (change,) * 100, 0) for n in range(200)]
    replaying = cpu(lambda: [follower.on_commit(batch) for batch in batches]) / 20_000
    print(f"replay: {replaying * 1e6:.1f} µs/record (of it decoding {decoding * 1e6:.1f}), {replaying * 1e6:.0f} s per million")


async def real_controllers() -> None:
    folder = Path(tempfile.mkdtemp(prefix="rookery-bench-"))
    try:
        async with cluster(folder) as (_, scripted):
            client = scripted[0].client
            for together in (1, 20):
                count = 200
                begun = time.monotonic()
                numbers = iter(range(count))

                async def create(numbers: "iter[int]" = numbers, together: int = together) -> None:  # type: ignore[valid-type]
                    for number in numbers:
                        topic = q.NewTopic(f"b{together}-{number}", 1, 3)
                        await client.create_topics(q.CreateTopicsRequest((topic,)))

                await asyncio.gather(*(create() for _ in range(together)))
                rate = count / (time.monotonic() - begun)
                print(f"three controllers over gRPC, {together:2} at a time: {rate:6.0f} topics created/s (wall)")
    finally:
        shutil.rmtree(folder)


def main() -> None:
    logging.getLogger("rookery").setLevel(logging.CRITICAL)
    decisions()
    one_change()
    death_of_a_broker()
    catching_up()
    asyncio.run(real_controllers())
