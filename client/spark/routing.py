"""The partition of each row: the one it names, else by its key, else the current one for rows without a key."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from rookery.client.partitioner import SEED, M, partition_for_key

LONGEST = 256
"""Longer keys are hashed one by one, because every word of the longest key is a step for all keys."""

_U32, _I32 = pa.uint32(), pa.int32()
_M, _SEED = pa.scalar(M, _U32), pa.scalar(SEED, _U32)
_SHIFTS = {bits: pa.scalar(bits, _U32) for bits in (13, 15, 24)}
_POSITIVE = pa.scalar(0x7FFFFFFF, _U32)
_LONGEST = pa.scalar(LONGEST, _I32)
_NOTHING = pa.scalar(b"", pa.binary())


def partitions_of(keys: pa.Array, partitions: int) -> pa.Array:
    """The partition of each key (binary, no nulls), as int32."""
    if partitions == 1:
        return pa.repeat(pa.scalar(0, _I32), len(keys))
    lengths = pc.binary_length(keys)
    long = pc.greater(lengths, _LONGEST)
    if not pc.any(long).as_py():
        return _partitions_of_short(keys, lengths, partitions)
    short = pc.if_else(long, _NOTHING, keys)
    one_by_one = [partition_for_key(key, partitions) for key in keys.filter(long).to_pylist()]
    found = _partitions_of_short(short, pc.binary_length(short), partitions)
    return pc.replace_with_mask(found, long, pa.array(one_by_one, _I32))


def _partitions_of_short(keys: pa.Array, lengths: pa.Array, partitions: int) -> pa.Array:
    count = pa.scalar(partitions, _U32)
    positive = pc.bit_wise_and(murmur2(keys, lengths), _POSITIVE)
    return pc.subtract(positive, pc.multiply(pc.divide(positive, count), count)).cast(_I32)


def murmur2(keys: pa.Array, lengths: pa.Array) -> pa.Array:
    """The hash of each key, as uint32. Arithmetic on uint32 wraps around, as the hash requires."""
    shortest, longest = (each.as_py() for each in pc.min_max(lengths).values())
    padded = pc.binary_join_element_wise(keys, bytes(longest + 4), _NOTHING)
    hashes = pc.bit_wise_xor(lengths.cast(_U32), _SEED)
    for begin in range(0, longest + 1, 4):
        word = _words_at(padded, begin)
        mixed = _mix(hashes, word)
        if begin + 4 > shortest:  # some keys end in this word, or have ended
            rest = pc.subtract(lengths, pa.scalar(begin, _I32))
            last = pc.multiply(pc.bit_wise_xor(hashes, word), _M)
            ends_here = pc.greater(rest, pa.scalar(0, _I32))
            mixed = pc.if_else(
                pc.greater_equal(rest, pa.scalar(4, _I32)), mixed, pc.if_else(ends_here, last, hashes)
            )
        hashes = mixed
    hashes = pc.multiply(_shifted_into(hashes, 13), _M)
    return _shifted_into(hashes, 15)


def _words_at(padded: pa.Array, begin: int) -> pa.Array:
    """Four bytes of each key as a number; zeros after its end."""
    four = pc.binary_slice(padded, begin, begin + 4)
    return pa.Array.from_buffers(_U32, len(four), [None, four.buffers()[2]])


def _mix(hashes: pa.Array, word: pa.Array) -> pa.Array:
    word = pc.multiply(_shifted_into(pc.multiply(word, _M), 24), _M)
    return pc.bit_wise_xor(pc.multiply(hashes, _M), word)


def _shifted_into(numbers: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(numbers, pc.shift_right(numbers, _SHIFTS[bits]))


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
