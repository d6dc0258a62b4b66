import asyncio
from uuid import UUID

import pytest

from rookery.broker.metadata.cluster_view import ClusterView
from rookery.core.metadata.codec import encode
from rookery.core.metadata.records import TopicRecord
from rookery.core.metadata_log import CommittedBatch


def a_view() -> ClusterView:
    return ClusterView(node_id=1, cluster_id="c")


def commit(view: ClusterView, name: str, offset: int = 0) -> None:
    record = encode(TopicRecord(name, UUID(int=offset + 1)))
    view.on_commit(CommittedBatch(offset, 1, (record,), 0))


@pytest.mark.invariant("M12")
async def test_publishers_learn_of_a_change_before_those_who_wait_for_it() -> None:
    view, order = a_view(), list[str]()
    view.add_publisher(lambda changes: order.append("published"))

    async def wait() -> None:
        assert await view.until(lambda image: "orders" in image.topic_ids, 5)
        order.append("waited")

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    commit(view, "orders")
    await waiting
    assert order == ["published", "waited"]
    commit(view, "orders")  # delivered again: nothing is new
    assert order == ["published", "waited"]
    assert view.image.offset == 0


async def test_a_waiter_goes_on_when_the_disks_have_followed() -> None:
    view, done = a_view(), asyncio.Event()

    async def settled() -> None:
        await done.wait()

    view.settles_with(settled)
    commit(view, "orders")
    waiting = asyncio.create_task(view.until(lambda image: "orders" in image.topic_ids, 5))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    done.set()
    assert await waiting


async def test_what_does_not_come_in_time() -> None:
    assert not await a_view().until(lambda image: "orders" in image.topic_ids, 0.01)


def test_who_is_said_to_lead_the_quorum() -> None:
    view = a_view()
    view.on_leader(3, 7)
    assert view.controller_id == 3
