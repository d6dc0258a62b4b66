"""The programs of docs/uses.md do what the page says."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from docs.examples import burst, log_aggregation, priorities, queue_and_topic, word_count

from rookery import Producer, Record
from rookery.sync import Producer as BlockingProducer
from rookery.testing import Cluster

BURST = 1000
WAIT_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


async def send(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, key=b"%d" % number)


async def received(
    cluster: Cluster, topic: str, groups: list[str | None], enough: Callable[[list[list[bytes]]], bool]
) -> list[list[bytes]]:
    """What a consumer of each group has got when it is enough."""
    found: list[list[bytes]] = [[] for _ in groups]

    def handler(place: int) -> Callable[[Record[bytes, bytes]], None]:
        return lambda record: found[place].append(record.value)

    tasks = [
        asyncio.create_task(queue_and_topic.receive(cluster.bootstrap, topic, group, handler(place)))
        for place, group in enumerate(groups)
    ]
    try:
        async with asyncio.timeout(WAIT_S):
            while not enough(found) and not any(task.done() for task in tasks):
                await asyncio.sleep(0.05)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
    return found


@pytest.mark.row(169)
async def test_a_burst_is_buffered_and_drained_though_a_node_dies(cluster: Cluster) -> None:
    topic, group, handled = "burst", "drain", []

    async def handle(record: Record[bytes, bytes]) -> None:
        handled.append(record.value)

    cluster.create_topic(topic)
    values = [b"%d" % number for number in range(BURST)]
    await burst.burst(cluster.bootstrap, topic, values)
    assert await burst.lag(cluster.bootstrap, topic, group) == BURST
    async with cluster.kill(cluster.leader(topic)):
        await burst.drain(cluster.bootstrap, topic, group, handle)
    assert list(dict.fromkeys(handled)) == values
    assert await burst.lag(cluster.bootstrap, topic, group) == 0


@pytest.mark.row(170)
def test_lines_of_several_programs_are_counted(cluster: Cluster) -> None:
    cluster.create_topic("lines", partitions=3)
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for program, errors in (("shop", 3), ("bank", 1)):
            logger = logging.getLogger(f"sample.{program}")
            logger.setLevel(logging.INFO)
            handler = log_aggregation.TopicHandler(producer, "lines", program)
            logger.addHandler(handler)
            logger.info("started")
            for number in range(errors):
                logger.error("order %d failed", number)
            logger.removeHandler(handler)
    assert log_aggregation.count_errors(cluster.bootstrap, "lines", 6) == Counter(shop=3, bank=1)


@pytest.mark.row(171, 181)
async def test_a_group_shares_and_groups_and_readers_without_one_get_all(cluster: Cluster) -> None:
    topic, everything = "both-ways", [b"%d" % number for number in range(60)]
    cluster.create_topic(topic, partitions=4)
    await send(cluster, topic, everything)
    first, second, *others = await received(
        cluster,
        topic,
        ["workers", "workers", "billing", None, None],
        lambda found: min(len(found[0]) + len(found[1]), *map(len, found[2:])) >= len(everything),
    )
    assert Counter(first) + Counter(second) == Counter(everything), "each record went to one worker"
    for each in others:
        assert Counter(each) == Counter(everything)


@pytest.mark.row(172)
async def test_words_are_counted_once_over_a_crash(cluster: Cluster) -> None:
    lines, counts = "text", "words"
    await word_count.prepare(cluster.bootstrap, lines, counts)
    await cluster.until(lambda: cluster.nodes.know(lines) and cluster.nodes.know(counts), "both topics everywhere")
    text = ["a rook is a bird", "a rookery is a place", "the end"]
    await send(cluster, lines, [line.encode() for line in text])
    with pytest.raises(RuntimeError, match="dies before"):
        await word_count.count(cluster.bootstrap, lines, counts, until=3, fail_at=1)
    assert (await word_count.table(cluster.bootstrap, counts))["a"] == 2
    await word_count.count(cluster.bootstrap, lines, counts, until=3)
    assert await word_count.table(cluster.bootstrap, counts) == Counter(" ".join(text).split())


@pytest.mark.row(176)
async def test_reading_takes_nothing_away(cluster: Cluster) -> None:
    """The difference to a queue of JMS from which the others follow."""
    cluster.create_topic("kept")
    await send(cluster, "kept", [b"1", b"2"])
    for _ in range(2):
        (found,) = await received(cluster, "kept", [None], lambda found: len(found[0]) == 2)
        assert found == [b"1", b"2"]
    assert [record.value for record in cluster.records("kept")] == [b"1", b"2"]


@pytest.mark.row(183)
async def test_a_topic_for_each_priority(cluster: Cluster) -> None:
    handled: list[bytes] = []
    for topic in ("urgent", "normal"):
        cluster.create_topic(topic)
    await send(cluster, "normal", [b"later"] * 20)
    await send(cluster, "urgent", [b"now"] * 20)
    await priorities.urgent_first(
        cluster.bootstrap, "urgent", "normal", "desk", lambda record: handled.append(record.value), 40
    )
    assert handled == [b"now"] * 20 + [b"later"] * 20
