"""A million mutated frames through the cores that strangers reach, and two thousand connections over sockets."""

import asyncio
import logging
from random import Random

import pytest

from rookery.broker.server.authentication import AuthenticationSettings
from rookery.broker.server.secured import Protection
from tests.unit.broker.server.strangers import (
    LIMIT,
    RSS_GROWTH_MB_MAX,
    fuzz_gate,
    mechanisms,
    rss_mb,
    streams,
)
from tests.unit.broker.server.test_secured import Running, login, running

PARTS = 4
AT_ONCE = 20
PASSWORD = "the-password"


@pytest.mark.parametrize("part", range(PARTS))
def test_a_million_mutated_frames_let_nobody_in_and_break_nothing(part: int) -> None:
    totals = fuzz_gate(1_000_000 // PARTS, seed=part)
    assert totals.admitted > 1000, "mutations that leave the secret as it is still get in"
    assert totals.refused > 10_000
    assert totals.unread > 1000


@pytest.mark.attack(65)
async def test_two_thousand_strangers_over_sockets_disturb_nobody(caplog: pytest.LogCaptureFixture) -> None:
    sasl = AuthenticationSettings(mechanisms(), {}, receive_bytes_max=LIMIT)
    before_mb, made = rss_mb(), streams(Random(7))
    async with running(Protection(sasl=sasl, failure_delay_s=0.0)) as it:
        bystander = await it.open(login("PLAIN", "alice", PASSWORD))
        for _ in range(2000 // AT_ONCE):
            await asyncio.gather(*(_stranger(it, b"".join(next(made))) for _ in range(AT_ONCE)))
            assert await it.ask(bystander) == "User:alice asks x"
        async with asyncio.timeout(60):
            while it.server.limits.count > 1:
                await asyncio.sleep(0.01)
        assert await it.ask(bystander) == "User:alice asks x"
        bystander.close()
    assert rss_mb() - before_mb < RSS_GROWTH_MB_MAX
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def _stranger(it: Running, sent: bytes) -> None:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
        try:
            writer.write(sent)
            writer.write_eof()
            await reader.read(100)
        finally:
            writer.transport.abort()
    except OSError:
        return  # closed by the broker in the middle
