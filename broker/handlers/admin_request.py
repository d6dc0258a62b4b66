"""Requests that only the controller can decide: passed on, and answered when this broker sees the result."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar
from uuid import UUID

from rookery.broker.handlers.ports import ClusterPort
from rookery.core.errors import RequestTimedOutError
from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import TopicAnswer

R = TypeVar("R")
TIMEOUT_S_MIN = 0.001
LEADERS_WITHIN_S = 1.0
"""New partitions get their replicas within a few disk writes; who waits longer, waits for a broker that just died."""


async def decide(
    ask: Awaitable[R],
    timeout_ms: int,
    cluster: ClusterPort,
    visible: Callable[[R], Callable[[Image], bool] | None],
) -> R:
    """The controller's answer, once what it says can be seen in this broker's image, so that the client's
    next request finds it. `visible` makes the condition; None where nothing has changed. Raises
    KafkaError."""
    timeout_s = max(timeout_ms / 1000, TIMEOUT_S_MIN)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    try:
        async with asyncio.timeout(timeout_s):
            answer = await ask
    except TimeoutError:
        raise RequestTimedOutError(f"the controller did not answer within {timeout_ms} ms") from None
    condition = visible(answer)
    if condition is not None and not await cluster.until(condition, deadline - loop.time()):
        raise RequestTimedOutError(
            f"the change was made, but did not reach broker {cluster.node_id} within {timeout_ms} ms"
        )
    return answer


async def until_led(cluster: ClusterPort, answers: Iterable[TopicAnswer]) -> None:
    """Wait a little until the leaders of new partitions have reported their replicas, so that the client's first
    look at them finds leaders. The partitions are there all the same if that takes longer."""
    ids = [answer.topic_id for answer in answers if not answer.error]
    await cluster.until(lambda image: all(_led(image, topic_id) for topic_id in ids), LEADERS_WITHIN_S)


def _led(image: Image, topic_id: UUID) -> bool:
    topic = image.topics.get(topic_id)
    return topic is None or all(each.leader_reported or not each.has_leader for each in topic.partitions.values())
