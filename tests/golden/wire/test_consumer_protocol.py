"""What members of classic groups tell each other, byte for byte as kio writes it."""

import importlib
import io
from random import Random
from typing import Any

import pytest
from kio.serial import entity_writer

from rookery.core.wire.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    Assignment,
    Subscription,
    TopicPartitions,
    from_bytes,
    to_bytes,
)
from rookery.core.wire.message import Message
from rookery.core.wire.primitives import WireError
from tests.golden.wire import peers
from tests.golden.wire.messages import random_message


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize(("message", "name"), [(SUBSCRIPTION, "subscription"), (ASSIGNMENT, "assignment")])
def test_kio_writes_the_same_bytes(message: Message[Any], name: str, version: int) -> None:
    module = importlib.import_module(f"kio.schema.consumer_protocol_{name}.v{version}.data")
    cls = getattr(module, f"ConsumerProtocol{name.title()}")
    rng = Random(f"{name} {version}")
    for _ in range(10):
        ours = random_message(message.struct, version, rng)
        out = io.BytesIO()
        entity_writer(cls)(out, peers.to_kio(cls, ours))
        raw = to_bytes(message, version, ours)
        assert raw == version.to_bytes(2, "big") + out.getvalue()
        assert from_bytes(message, raw) == ours


def test_newer_versions_are_read_as_the_newest_we_know() -> None:
    ours = Subscription(topics=["a"], owned_partitions=[TopicPartitions(topic="a", partitions=[1])], rack_id="r")
    raw = b"\0\x09" + to_bytes(SUBSCRIPTION, 3, ours)[2:] + b"and more"
    assert from_bytes(SUBSCRIPTION, raw) == ours


@pytest.mark.parametrize("raw", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\x05", b"\0\0\x7f\xff\xff\xff"])
def test_what_is_no_assignment_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError):
        from_bytes(ASSIGNMENT, raw)


def test_an_assignment_may_be_empty() -> None:
    assert from_bytes(ASSIGNMENT, to_bytes(ASSIGNMENT, 0, Assignment(assigned_partitions=[]))) == Assignment(
        assigned_partitions=[]
    )
