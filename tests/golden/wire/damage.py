"""Valid bytes with something done to them."""

from collections.abc import Iterator
from random import Random

LENGTHS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f", b"\x7f\xff")


def mutants(raw: bytes, rng: Random, count: int) -> Iterator[bytes]:
    """The bytes with one to three things done to them, again and again."""
    for _ in range(count):
        data = bytearray(raw)
        for _ in range(rng.randint(1, 3)):
            _damage(data, rng)
        yield bytes(data)


def _damage(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data) + 1)
    match rng.randrange(6):
        case 0:
            del data[at:]
        case 1:
            data[at : at + 1] = rng.randbytes(1)
        case 2:
            data[at:at] = rng.randbytes(rng.randint(1, 5))
        case 3:
            del data[at : at + rng.randint(1, 5)]
        case 4:
            length = rng.choice(LENGTHS)
            data[at : at + len(length)] = length
        case _:
            other = rng.randrange(len(data) + 1)
            data[at:at] = data[other : other + rng.randint(1, 20)]
