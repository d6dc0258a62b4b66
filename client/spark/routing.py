"""The partition of each row: the one it names, else by its key, else the current one for rows without a key."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from rookery.client.spark.hashing import partitions_of

_I32 = pa.int32()
_NO_KEY = pa.scalar(b"", pa.binary())


def route(keys: pa.Array, given: pa.Array | None, partitions: int, turn: int) -> pa.Array:
    """The partition of each row, as int32."""
    keyless = pa.scalar(turn % partitions, _I32)
    if keys.null_count == len(keys):
        chosen = pa.repeat(keyless, len(keys))
    else:
        chosen = partitions_of(keys.fill_null(_NO_KEY), partitions)
        chosen = pc.if_else(keys.is_valid(), chosen, keyless) if keys.null_count else chosen
    return chosen if given is None else pc.coalesce(given.cast(_I32), chosen)


def grouped(rows: pa.RecordBatch, groups: pa.Array) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows by the group each is in; those of one group keep their order."""
    least, most = (each.as_py() for each in pc.min_max(groups).values())
    if least == most:
        yield least, rows
        return
    order = pc.array_sort_indices(groups)  # a stable sort
    runs = pc.run_end_encode(groups.take(order))
    begin = 0
    for group, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield group, rows.take(order[begin:end])
        begin = end
