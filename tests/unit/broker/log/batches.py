"""Real batches for tests that store them."""

from collections.abc import Sequence

from rookery.core.wire.records import Codec, Record, build_batch

NOW = 1_700_000_000_000


def batch(
    count: int = 1,
    *,
    keys: Sequence[bytes | None] | None = None,
    values: Sequence[bytes | None] | None = None,
    timestamp: int = NOW,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> bytearray:
    """A batch as a producer would send it."""
    records = [
        Record(i, timestamp + i, keys[i] if keys else b"k%d" % i, values[i] if values else b"v%d" % i)
        for i in range(count)
    ]
    return build_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch if producer_id >= 0 else -1,
        base_sequence=sequence,
        transactional=transactional,
    )
