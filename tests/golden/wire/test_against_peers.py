"""Every API, every version, both directions: the bytes other implementations write and read."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from rookery.core.wire.api import Api
from tests.golden.wire import peers
from tests.golden.wire.messages import EVERY_VERSION, SIDES, case_id, random_message

CASES = 6
KNOWN_TO_KAFKA_PYTHON = [case for case in EVERY_VERSION if peers.kafka_python_knows(*case)]


def _codec(api: Api[Any, Any], side: str) -> tuple[Any, Callable[..., list[Any]], Callable[..., Any]]:
    if side == "request":
        return api.request, api.encode_request, api.decode_request
    return api.response, api.encode_response, api.decode_response


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=case_id)
def test_kio_writes_and_reads_the_same_bytes(api: Api[Any, Any], version: int, side: str) -> None:
    cls, encode, decode = _codec(api, side)
    rng = Random(f"{api.name} {version} {side}")
    for _ in range(CASES):
        message = random_message(cls, version, rng, plausible=True)
        ours = b"".join(encode(version, message))
        assert ours == peers.kio_encode(api, version, side, message)
        assert decode(version, ours) == message
        assert peers.kio_decode(api, version, side, ours) == peers.to_kio(
            peers.kio_class(api, version, side), message
        )


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("api", "version"), KNOWN_TO_KAFKA_PYTHON, ids=case_id)
def test_kafka_python_writes_the_same_bytes(api: Api[Any, Any], version: int, side: str) -> None:
    cls, encode, decode = _codec(api, side)
    rng = Random(f"{api.name} {version} {side}")
    for _ in range(CASES):
        message = random_message(cls, version, rng)
        ours = b"".join(encode(version, message))
        assert ours == peers.kafka_python_encode(api, version, side, message)
        assert decode(version, ours) == message
