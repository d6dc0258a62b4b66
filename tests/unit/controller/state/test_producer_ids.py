"""Blocks of producer ids."""

import pytest

from rookery.controller.state.brokers import BLOCK_SIZE, allocate_producer_ids
from rookery.core.metadata.requests import AllocateProducerIdsRequest
from tests.unit.controller.state.clusters import after, cluster


@pytest.mark.invariant("M11")
def test_blocks_follow_each_other_without_overlap() -> None:
    image = cluster()
    given = []
    for broker in (1, 2, 1, 3):
        decision = allocate_producer_ids(image, AllocateProducerIdsRequest(broker, image.brokers[broker].epoch))
        image = after(image, decision.records)
        reply = decision.reply(image)
        given.append(range(reply.first, reply.first + reply.count))
    assert [len(block) for block in given] == [BLOCK_SIZE] * 4
    assert len(set().union(*given)) == 4 * BLOCK_SIZE
