"""Groups of the consumer protocol: what heartbeats cost, and how long partitions stand still in a rebalance.

10,000 members in 100 groups send one heartbeat each through request and response bytes and the group: CPU as a share of
one core within the heartbeat interval. Sockets and the log are not part of it; `bench_heartbeats` has both.

Then a group of 20 on 100 partitions: librdkafka's consumers on a node of its own process, with the default intervals of
both, while each partition gets a record every 50 ms. A twentieth member joins, later it leaves. The longest time
without a record of each partition is shown, for both protocols, and for Apache Kafka in the same run, one after the
other.
"""

import shutil
import statistics
import threading
import time
from contextlib import ExitStack, closing
from itertools import pairwise
from typing import Any

from confluent_kafka import Consumer, Producer

from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.broker.groups.consumer.member import Member
from rookery.broker.groups.consumer.request import Client
from rookery.broker.groups.group_state import ConsumerOptions, GroupOptions
from rookery.core.wire.apis.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
)
from tests.cluster.local import LocalCluster, local_cluster, wait_for
from tests.interop.kafka.cluster import KafkaCluster, kafka_cluster
from tests.unit.broker.groups.consumer.driver import ConsumerDriver
from tests.unit.broker.groups.driver import Caller

GROUPS, MEMBERS = 100, 100
INTERVAL_MS = 5_000
SIZE, PARTITIONS = 20, 100
EVERY_S = 0.05
STILL_MS = 500
"""A partition without a record for so long stands still: ten records are due in that time."""
AFTER_S = 3.0
PATIENCE_S = 90.0
PROTOCOLS: dict[str, dict[str, Any]] = {
    "consumer": {"group.protocol": "consumer"},
    "classic, range": {"partition.assignment.strategy": "range"},
    "classic, cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
}


def heartbeats() -> None:
    options = GroupOptions(consumer=ConsumerOptions(assignment_interval_ms=0))
    driver = Quiet(options=options)
    driver.cluster.make("t", MEMBERS)
    begun = time.thread_time()
    for group in range(GROUPS):
        for member in range(MEMBERS):
            driver.join_new(f"{group}-{member}", "t", group=f"g{group}")
    for _ in range(3):
        for group in range(GROUPS):
            stable(driver, f"g{group}")
    joined = time.thread_time() - begun
    written = len(driver.log)
    requests = []
    for group in range(GROUPS):
        for each in members_of(driver, f"g{group}"):
            request = ConsumerGroupHeartbeatRequest(
                group_id=f"g{group}", member_id=each.id, member_epoch=each.current.epoch
            )
            requests.append(b"".join(CONSUMER_GROUP_HEARTBEAT.encode_request(1, request)))
    client = Client("client", "/127.0.0.1")
    begun = time.thread_time()
    for raw in requests:
        request = CONSUMER_GROUP_HEARTBEAT.decode_request(1, raw)
        caller = Caller()
        step = driver.state.consumer_heartbeat(request, 1, client, caller, driver.now)
        for to, response in step.answers:
            to.complete(response)
        b"".join(CONSUMER_GROUP_HEARTBEAT.encode_response(1, caller.response))
    spent = time.thread_time() - begun
    count = len(requests)
    print(f"{count} members in {GROUPS} groups, joined and stable after {joined:.1f} s of CPU")
    added = len(driver.log) - written
    print(f"  a heartbeat that changes nothing: {spent / count * 1e6:.0f} us, {added} records written")
    print(f"  all of them: {spent / (INTERVAL_MS / 1000):.1%} of one core within {INTERVAL_MS} ms (without sockets)")


class Quiet(ConsumerDriver):
    """Does not fold the log again after each batch."""

    def check_fold(self) -> None:
        return

    def _settle(self) -> None:
        return


def stable(driver: ConsumerDriver, group: str) -> None:
    """One heartbeat of each member, which says to have what it was given."""
    for member in members_of(driver, group):
        driver.beat(member.id, member.current.epoch, owned=list(member.current.assigned), group=group)


def members_of(driver: ConsumerDriver, group_id: str) -> list[Member]:
    group = driver.state.groups[group_id]
    if not isinstance(group, ConsumerGroup):
        raise RuntimeError(f"group {group_id!r} is not of the consumer protocol")
    return list(group.members.values())


class Writer:
    """Writes a record to each partition, again and again."""

    def __init__(self, cluster: LocalCluster | KafkaCluster, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "log_level": 0})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        while not self._stop.wait(EVERY_S):
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, b"x", partition=partition)
            self._producer.poll(0)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(30)


class Reader:
    """A member of the group, with the times at which it got records of each partition."""

    def __init__(self, cluster: LocalCluster | KafkaCluster, topic: str, name: str) -> None:
        self._config = {
            "bootstrap.servers": cluster.bootstrap, "group.id": topic, "log_level": 0, "fetch.wait.max.ms": 50,
            "auto.offset.reset": "latest", **PROTOCOLS[name],
        }  # fmt: skip
        self._topic = topic
        self.owns = 0
        self.times: dict[int, list[float]] = {partition: [] for partition in range(PARTITIONS)}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        consumer = Consumer(self._config)
        consumer.subscribe([self._topic])
        while not self._stop.is_set():
            for message in consumer.consume(500, 0.05):
                partition = message.partition()
                if message.error() is None and partition is not None:
                    self.times[partition].append(time.monotonic())
            self.owns = len(consumer.assignment())
        consumer.close()
        self.owns = 0

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self.stop()
        self._thread.join(60)


def longest_gaps(readers: list[Reader], begun: float, ended: float) -> list[float]:
    """The longest time without a record of each partition (ms), whoever read it."""
    gaps = []
    for partition in range(PARTITIONS):
        times = sorted(time for reader in readers for time in reader.times[partition] if begun <= time <= ended)
        edges = [begun, *times, ended]
        gaps.append(max(after - before for before, after in pairwise(edges)) * 1000)
    return gaps


def settled(readers: list[Reader], size: int) -> None:
    share = {PARTITIONS // size, -(-PARTITIONS // size)}

    def is_settled() -> bool:
        owned = [reader.owns for reader in readers if reader.owns]
        return len(owned) == size and sum(owned) == PARTITIONS and set(owned) <= share

    wait_for(is_settled, f"shares of {size} members", PATIENCE_S)


def stands_still(cluster: LocalCluster | KafkaCluster, server: str, name: str) -> None:
    topic = name.replace(", ", "-")
    cluster.create_topic(topic, PARTITIONS, 1)
    with ExitStack() as stack:
        stack.enter_context(closing(Writer(cluster, topic)))
        readers = [stack.enter_context(closing(Reader(cluster, topic, name))) for _ in range(SIZE - 1)]
        settled(readers, SIZE - 1)
        wait_for(lambda: all(any(reader.times[p] for reader in readers) for p in range(PARTITIONS)), "records", 60)
        time.sleep(AFTER_S)
        for what in ("nothing", "joins", "leaves"):
            begun = time.monotonic()
            if what == "nothing":
                time.sleep(AFTER_S)  # what the machine itself makes of it
            elif what == "joins":
                readers.append(stack.enter_context(closing(Reader(cluster, topic, name))))
                settled(readers, SIZE)
            else:
                readers[-1].stop()
                settled(readers, SIZE - 1)
            took = time.monotonic() - begun
            time.sleep(AFTER_S)
            gaps = longest_gaps(readers, begun, time.monotonic())
            still = sum(gap > STILL_MS for gap in gaps)
            mean = statistics.mean(gaps)
            print(f"{name:22}{server:9}{what:9}{took:9.1f}{still:13}{mean:8.0f}{max(gaps):9.0f}", flush=True)


def main() -> None:
    heartbeats()
    print(f"\na {SIZE}th member of a group on {PARTITIONS} partitions: the longest time without a record of each (ms)")
    print(f"{'':22}{'':9}{'':9}{'took, s':>9}{'stand still':>13}{'mean':>8}{'longest':>9}")
    options = {"offsets__topic__num__partitions": "1", "auto__create__topics__enable": "false"}
    with ExitStack() as stack:
        servers: dict[str, LocalCluster | KafkaCluster] = {"rookery": stack.enter_context(local_cluster(1, **options))}
        if shutil.which("java") and shutil.which("mvn"):
            servers["Kafka"] = stack.enter_context(kafka_cluster(1, **options))
        for name in PROTOCOLS:
            for server, cluster in servers.items():
                stands_still(cluster, server, name)


if __name__ == "__main__":
    main()
