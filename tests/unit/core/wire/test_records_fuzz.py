"""Whatever the bytes: nothing but the codec's own errors comes out, and damage never passes for health."""

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from rookery.core.errors import KafkaError
from rookery.core.wire.batch import crc_of
from rookery.core.wire.compression import Codec, decompress
from rookery.core.wire.markers import EndMarker, build_marker, read_marker
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import (
    Record,
    RecordHeader,
    batches,
    build_batch,
    check_records,
    offset_for_timestamp,
    offset_of_max_timestamp,
    read_header,
    read_records,
    recompress,
    rewrite_batch,
    validate_produce_batch,
    validate_replica_batches,
)
from tests.unit.core.wire.records_strategies import NOW, plain

ROUNDS = 1500
BUDGET = 256 * 1024
EDGES = (0, 1, 0x7F, 0x80, 0xFF)


def a_batch(rng: random.Random, codec: Codec) -> bytearray:
    records = [
        Record(
            index,
            NOW + rng.randrange(-1000, 1_000_000),
            rng.choice((None, b"", rng.randbytes(rng.randrange(100)))),
            rng.choice((None, b"text " * rng.randrange(50))),
            [RecordHeader("h" * rng.randrange(9), rng.choice((None, b"x")))] * rng.randrange(3),
        )
        for index in range(rng.randrange(1, 20))
    ]
    return build_batch(
        records, codec=codec, producer_id=rng.randrange(-1, 9), producer_epoch=0, base_sequence=0
    )


def mutated(rng: random.Random, batch: bytearray) -> bytearray:
    """A few bytes set, cut out, doubled or replaced by edge numbers; often with its checksum made right again."""
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(batch)) if rng.random() < 0.6 else rng.randrange(min(len(batch), 90))
        match rng.randrange(5):
            case 0:
                batch[at] ^= 1 << rng.randrange(8)
            case 1:
                batch[at] = rng.choice(EDGES)
            case 2:
                del batch[at : at + rng.randrange(1, 9)]
            case 3:
                batch[at:at] = batch[at : at + rng.randrange(1, 30)]
            case _:
                batch[at : at + 4] = struct.pack(
                    ">i", rng.choice((-1, 0, 2**31 - 1, -(2**31), rng.randrange(500)))
                )
        if len(batch) < 61:
            return batch
    if rng.random() < 0.8:
        struct.pack_into(">iib", batch, 8, len(batch) - 12, 0, 2)
        struct.pack_into(">I", batch, 17, crc_of(batch, 0, len(batch)))
    return batch


def readers(batch: bytearray) -> Iterator[Callable[[], object]]:
    yield lambda: list(batches(batch))
    yield lambda: list(batches(batch, partial_end=True))
    yield lambda: validate_produce_batch(batch, 1 << 20)
    yield lambda: validate_replica_batches(batch, 0)
    yield lambda: read_records(batch, 0, BUDGET)
    yield lambda: check_records(batch, keys=True, budget=BUDGET)
    yield lambda: recompress(batch, 0, Codec.ZSTD, budget=BUDGET)
    yield lambda: offset_for_timestamp(batch, 0, NOW, BUDGET)
    yield lambda: offset_of_max_timestamp(batch, 0, BUDGET)
    yield lambda: read_marker(batch)
    yield lambda: rewrite_batch(read_header(batch), read_records(batch, 0, BUDGET), delete_horizon=NOW)


@pytest.mark.invariant("S1")
@pytest.mark.parametrize("codec", Codec)
def test_mutated_batches(codec: Codec) -> None:
    rng = random.Random(f"batches {codec.name}")
    refused = taken = 0
    for _ in range(ROUNDS):
        batch = mutated(rng, a_batch(rng, codec))
        before = bytes(batch)
        for read in readers(batch):
            try:
                read()
                taken += 1
            except (WireError, KafkaError):
                refused += 1
        assert batch == before, "reading must not write"
    assert refused > ROUNDS
    assert taken > ROUNDS / 2


@pytest.mark.parametrize("codec", Codec)
def test_mutated_compressed_data_stays_within_its_budget(codec: Codec) -> None:
    rng = random.Random(f"codec {codec.name}")
    for _ in range(ROUNDS):
        data = mutated(rng, a_batch(rng, codec))[61:]
        with suppress(WireError):
            assert len(decompress(codec, data, 20_000)) <= 20_000


def test_what_mutated_batches_still_say_can_be_written_again() -> None:
    rng = random.Random("rewrite")
    rewritten = 0
    for _ in range(ROUNDS):
        batch = mutated(rng, a_batch(rng, Codec.NONE))
        try:
            header, records = read_header(batch), read_records(batch, 0, BUDGET)
            again = rewrite_batch(header, records)
        except WireError:
            continue
        assert plain(read_records(again)) == plain(records)
        rewritten += 1
    assert rewritten > ROUNDS / 10


def test_mutated_markers() -> None:
    rng = random.Random("markers")
    for _ in range(ROUNDS):
        marker = EndMarker(rng.random() < 0.5, rng.randrange(9))
        batch = build_marker(
            marker, producer_id=rng.randrange(99), producer_epoch=rng.randrange(9), timestamp=NOW
        )
        with suppress(WireError):
            read_marker(mutated(rng, batch))


def test_random_bytes() -> None:
    rng = random.Random("noise")
    for _ in range(ROUNDS):
        noise = bytearray(rng.randbytes(rng.randrange(1, 200)))
        with pytest.raises((WireError, KafkaError)):
            validate_produce_batch(noise, 1 << 20)
        for read in readers(noise):
            with suppress(WireError, KafkaError):
                read()
