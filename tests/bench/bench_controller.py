"""The controller: what decisions cost, whether they stay cheap in a big cluster, and what three real ones deliver."""

import asyncio
import gc
import logging
import shutil
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

from rookery.controller import controller as controller_module
from rookery.controller.loop import ControllerLoop
from rookery.controller.settings import ControllerSettings
from rookery.controller.state import brokers
from rookery.controller.state.defaults import Defaults
from rookery.core.clock import SystemClock
from rookery.core.metadata import records as r
from rookery.core.metadata import requests as q
from rookery.core.metadata.codec import decode, encode
from rookery.core.metadata.delta import Delta, LatestImage
from rookery.core.metadata.image import EMPTY, Image, Partition
from rookery.core.metadata.snapshot import snapshot, state_hash
from rookery.core.metadata_log import CommittedBatch, SnapshotId
from tests.cluster.controllers import cluster
from tests.unit.controller.desk import Desk
from tests.unit.controller.local_quorum import LocalQuorum
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
        spent = cpu(partial(create_topics, desk, count, partitions))
        label = f"create a topic of {partitions} partition(s)"
        print(f"{label:34} {count / spent:18.0f} {count * partitions / spent:13.0f}")
    for width in (1, 100):
        desk = ready_desk()
        desk.topic("t", width, 3)
        image = desk.controller.committed
        topic, leaders = image.topics[image.topic_ids["t"]], {n: b.epoch for n, b in image.brokers.items()}
        rounds = 2000 // width
        spent = cpu(partial(alter_rounds, desk, topic.id, leaders, rounds))
        label = f"AlterPartition of {width} partition(s)"
        print(f"{label:34} {rounds / spent:18.0f} {rounds * width / spent:13.0f}")


def ready_desk() -> Desk:
    desk = Desk(session_s=1e9, queue_max=1 << 20).lead()
    for broker in (1, 2, 3):
        desk.broker(broker)
    return desk


def create_topics(desk: Desk, count: int, partitions: int) -> None:
    for number in range(count):
        desk.topic(f"t{number}", partitions, 3)


def alter_rounds(desk: Desk, topic_id: UUID, epochs: dict[int, int], rounds: int) -> None:
    for round_ in range(rounds):
        alter(desk, topic_id, epochs, round_)


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
    heads = ("partitions", "one change µs", "dict copy µs", "bytes/partition", "state hash ms")
    print("\n" + " ".join(f"{head:>15}" for head in heads))
    for size in SIZES:
        tracemalloc.start()
        image = partitioned(size)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        plain = {(topic.id, index): partition for topic, index, partition in image.partitions()}
        hashing = cpu(partial(state_hash, image))
        figures = (size, changing(image) * 1e6, copying(plain) * 1e6, held / size, hashing * 1e3)
        print(" ".join(f"{figure:15.1f}" for figure in figures))


def changing(image: Image, rounds: int = 2000) -> float:
    topic = UUID(int=1000)
    values = [encode(r.PartitionChangeRecord(topic, n % PER_TOPIC, isr=(1, 2))) for n in range(rounds)]

    def fold() -> None:
        follower = LatestImage(image)
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
        begun = time.process_time()
        records = brokers.fence(image, 1, Defaults())
        deciding = time.process_time() - begun
        values = tuple(encode(record) for record in records)
        batch = CommittedBatch(image.offset + 1, 1, values, 0)
        follower = LatestImage(image)
        replaying = cpu(partial(follower.on_commit, batch))
        moved = sum(isinstance(record, r.PartitionChangeRecord) and record.leader is not None for record in records)
        total = (deciding + replaying) / moved * 1e6
        print(f"{size:10} {moved:12} {deciding * 1e3:10.1f} {replaying * 1e3:10.1f} {total:10.1f}")


async def stall() -> None:
    """How long the event loop stands still while a broker of 10,000 partitions is fenced."""
    image = partitioned(10_000)
    loop = asyncio.get_running_loop()
    for label, offloaded_from in (("on the loop", 1 << 60), ("in a thread", 2000)):
        controller_module.OFFLOADED_FROM = offloaded_from
        quorum = LocalQuorum(1, soon=loop.call_soon)
        quorum.snapshot = (SnapshotId(image.offset + 1, 1), tuple(encode(record) for record in snapshot(image)))
        quorum._end_offset = image.offset + 1
        owner = ControllerLoop(ControllerSettings(1, "bench", reconnect_grace_s=0.0), quorum, SystemClock())
        quorum.start(owner.controller)
        serving = asyncio.create_task(owner.serve())
        quorum.lead()
        for broker in (2, 3):
            owner.controller.sessions.contact(broker, image.brokers[broker].epoch, time.monotonic() + 1e6)
        owner.controller.sessions._sessions[1].deadline = 0.0
        longest, last = 0.0, time.monotonic()
        while not owner.controller.committed.brokers[1].fenced:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        print(f"fencing a broker of 10,000 partitions {label}: the loop stalls {longest * 1e3:.0f} ms at most")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def catching_up() -> None:
    image = partitioned(10_000)
    values = [encode(record) for record in snapshot(image)]
    loading = cpu(lambda: LatestImage().on_snapshot(SnapshotId(image.offset + 1, 1), values))
    print(f"\nsnapshot of 10,000 partitions: load {loading:.2f} s, {sum(map(len, values)) / 1e6:.1f} MB")
    change = encode(r.PartitionChangeRecord(UUID(int=1000), 0, isr=(1, 2)))
    decoding = cpu(lambda: [decode(change) for _ in range(20_000)]) / 20_000
    follower = LatestImage(image)
    batches = [CommittedBatch(image.offset + 1 + 100 * n, 1, (change,) * 100, 0) for n in range(200)]
    replaying = cpu(lambda: [follower.on_commit(batch) for batch in batches]) / 20_000
    print(f"replay: {replaying * 1e6:.1f} µs of CPU per record, of it {decoding * 1e6:.1f} for decoding")


async def real_controllers() -> None:
    folder = Path(tempfile.mkdtemp(prefix="rookery-bench-"))
    try:
        async with cluster(folder) as (_, scripted):
            client = scripted[0].client
            for together in (1, 20):
                count = 200
                begun = time.monotonic()
                numbers = iter(range(count))

                async def create(numbers: Iterator[int] = numbers, together: int = together) -> None:
                    for number in numbers:
                        topic = q.NewTopic(f"b{together}-{number}", 1, 3)
                        await client.ask(q.CreateTopicsRequest((topic,)))

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
    asyncio.run(stall())
    catching_up()
    asyncio.run(real_controllers())
