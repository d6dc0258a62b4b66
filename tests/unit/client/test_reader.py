"""What a reader makes of the bytes of a fetch."""

import pytest

from rookery.client.reader import Aborted, decode
from rookery.core.wire.apis.fetch import AbortedTransaction
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.records import Record, build_batch


def batch(offset: int, value: bytes, producer_id: int = -1) -> bytes:
    records = [Record(offset, 1, None, value)]
    epoch = 0 if producer_id >= 0 else -1
    return bytes(
        build_batch(records, producer_id=producer_id, producer_epoch=epoch, transactional=producer_id >= 0)
    )


def ending(offset: int, producer_id: int, *, commit: bool) -> bytes:
    marker = EndMarker(commit, 0)
    return bytes(build_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1, offset=offset))


@pytest.mark.row(135)
def test_what_was_aborted_is_hidden_from_who_reads_committed() -> None:
    data = b"".join(
        [
            batch(0, b"plain"),
            batch(1, b"taken back", 7),
            batch(2, b"kept", 8),
            ending(3, 7, commit=False),
            batch(4, b"the next", 7),
            ending(5, 8, commit=True),
            ending(6, 7, commit=True),
        ]
    )
    everything, end = decode(data, 0)
    assert [record.value for record in everything] == [b"plain", b"taken back", b"kept", b"the next"]
    aborted = Aborted([AbortedTransaction(producer_id=7, first_offset=1)])
    committed, same = decode(data, 0, aborted)
    assert [record.value for record in committed] == [b"plain", b"kept", b"the next"]
    assert end == same == 7
