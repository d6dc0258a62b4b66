"""Days of a cluster's life in an hour: real nodes under load while segments are deleted by age and by size, logs are
compacted, records are deleted on request, a topic is deleted and recreated under its name, and every node is restarted
in turn. Everything acknowledged is read once and in order before it may be deleted, every partition goes on after
every deletion, compacted topics keep the last value of every key, and replicas agree on what they still have."""

import random
import time
from collections import Counter
from contextlib import ExitStack

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.deleting import delete_records
from tests.cluster.ends import ends
from tests.cluster.load import Load
from tests.cluster.local import LocalCluster, local_cluster, wait_for
from tests.cluster.replicas import check_history_and_replicas

PARTITIONS = 4
NODES = 3
KEYS = 50
AFTER_RESTART = 200
UNREAD_MAX = 20_000
"""Of all four partitions; by size some 60,000 are kept."""
CHURN, KEYED = "recreated", "keyed"
TIMED, SIZED = "deleted-by-age", "deleted-by-size"
LOADED = (TIMED, SIZED)
CONFIGS = {
    TIMED: {"retention.ms": "20000", "segment.ms": "4000"},
    SIZED: {"retention.bytes": "400000", "segment.ms": "4000"},
    KEYED: {"cleanup.policy": "compact", "segment.ms": "3000", "min.cleanable.dirty.ratio": "0.01"},
}


def main(budget_s: float) -> dict[str, object]:
    """One day after the other until the time is over; raises on the first thing lost, and when anything stops."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    rng, deadline, totals = random.Random(seed), time.monotonic() + budget_s, Counter[str]()
    gaps: list[float] = []
    with local_cluster(
        NODES,
        broker__session__timeout__ms="3000",
        broker__heartbeat__interval__ms="500",
        replica__lag__time__max__ms="2000",
        leader__imbalance__check__interval__seconds="5",
        log__retention__check__interval__ms="1000",
        log__segment__delete__delay__ms="500",
        log__cleaner__backoff__ms="500",
        log__flush__offset__checkpoint__interval__ms="2000",
        log__flush__start__offset__checkpoint__interval__ms="2000",
        metadata__log__max__snapshot__interval__ms="10000",
    ) as cluster:
        for topic, config in CONFIGS.items():
            cluster.create_topic(topic, PARTITIONS, NODES, {"min.insync.replicas": "2", **config})
        latest: dict[bytes, bytes] = {}
        while time.monotonic() < deadline:
            gaps += _day(cluster, rng, totals, latest)
            totals["days"] += 1
            print(f"day {totals['days']}: {dict(totals)}, longest gap {max(gaps):.2f} s", flush=True)
    if not totals["segments deleted"]:
        raise AssertionError("no segment was deleted: this soak has shown nothing")
    return {"seed": seed, **totals, "longest gap s": round(max(gaps), 2)}


def _day(cluster: LocalCluster, rng: random.Random, totals: Counter[str], latest: dict[bytes, bytes]) -> list[float]:
    """Every node restarts once, each in a way of its own; the longest gaps between acknowledgements."""
    gaps = []
    with ExitStack() as stack:
        loads = {
            topic: stack.enter_context(Load(cluster, topic, PARTITIONS, unread_max=UNREAD_MAX)) for topic in LOADED
        }
        for node in rng.sample(cluster.ids, len(cluster.ids)):
            begun = time.monotonic()
            before = {topic: _first_offsets(cluster, topic) for topic in LOADED}
            how = rng.choice(("stop", "stop", "kill"))
            totals[how] += 1
            (cluster.stop if how == "stop" else cluster.kill)(node)
            _write_keys(cluster, rng, latest, totals)
            cluster.up()
            for topic, load in loads.items():
                cluster.wait_in_sync(topic, PARTITIONS)
                load.go_on_everywhere(AFTER_RESTART)
                gaps.append(load.longest_gap_s(begun))
            _wait_for_deletions(cluster, before, totals)
            for load in loads.values():
                load.go_on_everywhere(AFTER_RESTART)
            _delete_what_was_read(cluster, rng, loads[TIMED])
            totals["records deleted on request"] += 1
        _recreate(cluster, totals)
    for topic, load in loads.items():
        check_history_and_replicas(cluster, load, topic, PARTITIONS, deleting=True)
        totals["acknowledged"] += load.acked
    _check_keys(cluster, latest)
    return gaps


def _first_offsets(cluster: LocalCluster, topic: str) -> list[int]:
    return [ends(cluster, topic, index)[0] for index in range(PARTITIONS)]


def _wait_for_deletions(cluster: LocalCluster, before: dict[str, list[int]], totals: Counter[str]) -> None:
    """Retention goes on: every partition begins later than before."""
    for topic, starts in before.items():
        for index, start in enumerate(starts):
            wait_for(
                lambda topic=topic, index=index, start=start: ends(cluster, topic, index)[0] > start,  # type: ignore[misc]
                f"retention to delete segments of {topic}-{index}",
                90,
            )
            totals["segments deleted"] += 1


def _delete_what_was_read(cluster: LocalCluster, rng: random.Random, load: Load) -> None:
    partition = rng.randrange(PARTITIONS)
    read = load.history.read[partition]
    if read:
        low, _ = ends(cluster, TIMED, partition)
        before = read[-1][0]
        if before > low:
            delete_records(cluster, TIMED, partition, before)


def _write_keys(cluster: LocalCluster, rng: random.Random, latest: dict[bytes, bytes], totals: Counter[str]) -> None:
    """Acknowledged values of the compacted topic, while a node is down."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    failures: list[str] = []
    sent: dict[bytes, bytes] = {}
    for number in range(KEYS * 20):
        key = b"key %d" % rng.randrange(KEYS)
        sent[key] = b"%d %d" % (time.time_ns(), number)
        partition = int(key.split()[1]) % PARTITIONS
        producer.produce(
            KEYED,
            sent[key],
            key,
            partition=partition,
            on_delivery=lambda error, _: failures.append(str(error)) if error is not None else None,
        )
    assert producer.flush(120) == 0, "writes to the compacted topic are not answered"
    assert failures == [], f"writes to the compacted topic failed: {failures[:5]}"
    latest.update(sent)
    totals["keyed records"] += KEYS * 20


def _check_keys(cluster: LocalCluster, latest: dict[bytes, bytes]) -> None:
    found: dict[bytes, bytes] = {}
    for index in range(PARTITIONS):
        _, end = ends(cluster, KEYED, index)
        found.update(_read_all(cluster, KEYED, index, end))
    wrong = {key: (found.get(key), value) for key, value in latest.items() if found.get(key) != value}
    assert found == latest, f"a compacted topic has not the last value of each key (found, written): {wrong}"


def _read_all(cluster: LocalCluster, topic: str, partition: int, end: int) -> dict[bytes, bytes]:
    """The last value of each key."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: dict[bytes, bytes] = {}
    deadline = time.monotonic() + 60
    try:
        while (consumer.position([TopicPartition(topic, partition)])[0].offset or 0) < end:
            assert time.monotonic() < deadline, f"{topic}-{partition} cannot be read to its end {end}"
            for message in consumer.consume(500, timeout=0.5):
                key, value = message.key(), message.value()
                if message.error() is None and isinstance(key, bytes) and isinstance(value, bytes):
                    found[key] = value
    finally:
        consumer.close()
    return found


def _recreate(cluster: LocalCluster, totals: Counter[str]) -> None:
    """A topic of the same name: it begins empty, and holds what is written now and nothing else."""
    if cluster.known(CHURN) != {0}:
        cluster.admin().delete_topics([CHURN])[CHURN].result(60)
        cluster.wait_until_known(CHURN, 0)
    cluster.create_topic(CHURN, 1, NODES, {"min.insync.replicas": "2"})
    assert ends(cluster, CHURN) == (0, 0), "a recreated topic is not empty"
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    written = {b"%d" % number: b"%d" % time.time_ns() for number in range(100)}
    failures: list[str] = []
    for key, value in written.items():
        producer.produce(
            CHURN,
            value,
            key,
            partition=0,
            on_delivery=lambda error, _: failures.append(str(error)) if error is not None else None,
        )
    assert producer.flush(60) == 0, "writes to the recreated topic are not answered"
    assert failures == [], f"writes to the recreated topic failed: {failures[:5]}"
    found = _read_all(cluster, CHURN, 0, 100)
    assert found == written, f"the recreated topic holds {found}, written were {written}"
    totals["topics recreated"] += 1
