"""Damaged frames of every API and version through framing, header and codec, for as long as allowed.

Each round has a seed of its own, which the failure names: nothing but `WireError` may come out.
"""

import time
from random import Random, SystemRandom

from rookery.core.wire.api_table import by_key
from rookery.core.wire.framing import FrameReader
from rookery.core.wire.header import request_frame
from rookery.core.wire.primitives import WireError
from rookery.core.wire.request_header import read_request_header
from tests.golden.wire.damage import mutants
from tests.golden.wire.messages import EVERY_VERSION, random_message

MUTANTS = 200


def main(budget_s: float) -> dict[str, object]:
    end = time.monotonic() + budget_s
    first = SystemRandom().randrange(2**48)
    rounds = frames = refused = 0
    while time.monotonic() < end:
        try:
            done, bad = one_round(first + rounds)
        except Exception as error:
            raise AssertionError(f"seed {first + rounds}: {type(error).__name__}: {error}") from error
        rounds, frames, refused = rounds + 1, frames + done, refused + bad
    return {"first_seed": first, "rounds": rounds, "frames": frames, "refused": refused}


def one_round(seed: int) -> tuple[int, int]:
    """One valid frame, damaged many times: how many were sent, how many refused."""
    rng = Random(seed)
    api, version = rng.choice(EVERY_VERSION)
    segments = request_frame(api, version, 1, "soak", random_message(api.request, version, rng))
    refused = 0
    for data in mutants(b"".join(segments), rng, MUTANTS):
        refused += not accepted(data)
    return MUTANTS, refused


def accepted(stream: bytes) -> bool:
    """What a broker does with bytes from a socket, up to the handler."""
    reader = FrameReader(1 << 20, read_size=1024)
    view = memoryview(stream)
    try:
        while len(view):
            room = reader.get_buffer()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            reader.received(count)
            for frame in reader.frames():
                header, pos = read_request_header(frame)
                api = by_key.get(header.api_key)
                if api is None or not api.supports(header.api_version):
                    return False
                api.encode_request(header.api_version, api.decode_request(header.api_version, frame, pos))
    except WireError:
        return False
    return True
