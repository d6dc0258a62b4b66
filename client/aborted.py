"""Which batches of a read_committed answer belong to aborted transactions."""

from collections.abc import Iterable
from heapq import heapify, heappop

from rookery.core.wire.apis.fetch import AbortedTransaction
from rookery.core.wire.batch import BatchHeader
from rookery.core.wire.markers import read_marker
from rookery.core.wire.primitives import Buffer


class Aborted:
    """Finds the batches of aborted transactions among those of one answer, read in order. An aborted transaction adds
    its producer from the transaction's first offset on, the marker removes it."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._coming = [(each.first_offset, each.producer_id) for each in transactions]
        heapify(self._coming)
        self._producers: set[int] = set()

    def covers(self, data: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the batch's records were aborted; call it for every batch, control batches too."""
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._producers.add(heappop(self._coming)[1])
        if header.control:
            marker = read_marker(data, position)
            if marker is not None and not marker.commit:
                self._producers.discard(header.producer_id)
            return False
        return header.transactional and header.producer_id in self._producers
