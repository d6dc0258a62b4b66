"""Producer ids, given to brokers in blocks; a block is never given twice, whoever leads."""

from rookery.controller.state.decision import Decision, decided
from rookery.core.metadata.image import Image
from rookery.core.metadata.records import ProducerIdsRecord
from rookery.core.metadata.requests import AllocateProducerIdsReply, AllocateProducerIdsRequest

BLOCK_SIZE = 1000


def allocate_producer_ids(
    image: Image, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsReply]:
    """The next block; the broker's epoch has been checked."""
    first = image.next_producer_id
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, first + BLOCK_SIZE)
    return decided([record], AllocateProducerIdsReply(first, BLOCK_SIZE))
