"""Back-pressure on real sockets, on both event loops: a client that does not read costs little and harms
nobody."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from rookery.core.wire.api import Api
from rookery.core.wire.apis.fetch import FETCH
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.header import request_frame
from tests.unit.broker.one_broker import OneBroker, running_broker
from tests.unit.broker.talk import batch_of, fetch_request, produce_request

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
BATCH = batch_of(b"x" * 900_000)
FETCHES = 40
HIGH_WATER = 1 << 20


def framed(api: Api[Any, Any], version: int, request: Any) -> bytes:
    return b"".join(bytes(part) for part in request_frame(api, version, 0, "test", request))


async def answer(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)


async def slow_reader(broker: OneBroker) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    writer.write(framed(METADATA, 12, MetadataRequest(topics=[])))
    await answer(reader)
    time_ms = broker.clock.wall_ms()
    await broker.cluster.ask(CreateTopicsRequest((NewTopic("large", 1, 1),)))
    writer.write(framed(PRODUCE, 9, produce_request("large", batch_of(b"x" * 900_000, time_ms=time_ms))))
    await answer(reader)

    silent_reader, silent = await asyncio.open_connection("127.0.0.1", broker.port)
    silent.write(framed(FETCH, 12, fetch_request("large", 0)) * FETCHES)
    unsent_max = 0
    for _round in range(20):  # others are served while one does not take its answers
        writer.write(framed(METADATA, 12, MetadataRequest(topics=[])))
        async with asyncio.timeout(5):
            await answer(reader)
        unsent_max = max(unsent_max, *(c.unsent_bytes for c in broker.server.connections))
    assert unsent_max < HIGH_WATER + 2 * len(BATCH), "one answer above the mark, not forty"
    async with asyncio.timeout(20):
        answers = [await answer(silent_reader) for _ in range(FETCHES)]
    assert {len(one) for one in answers} == {len(answers[0])}
    assert len(answers[0]) > 900_000
    for end in (writer, silent):
        end.close()


@pytest.mark.parametrize("loop", list(LOOPS))
def test_a_client_that_does_not_read_is_not_buffered_for(loop: str) -> None:
    async def main() -> None:
        async with running_broker() as broker:
            await slow_reader(broker)

    factory: Callable[[], asyncio.AbstractEventLoop] = LOOPS[loop]
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
