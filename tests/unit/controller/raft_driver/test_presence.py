"""A node that is gone is noticed once, whether its connection closes or it merely falls silent."""

import asyncio

import pytest

from rookery.controller.raft.presence import Presence
from tests.unit.controller.raft_driver.nodes import until


@pytest.fixture
def gone() -> list[int]:
    return []


def watching(gone: list[int], *, leads: bool = True) -> Presence:
    presence = Presence(lambda: leads, silence_s=0.02)
    presence.on_closed(gone.append)
    return presence


async def test_a_fetch_cut_off_is_reported_at_once(gone: list[int]) -> None:
    presence = watching(gone)
    presence.asked(7)
    presence.cut(7)
    assert gone == [7]


async def test_a_node_that_does_not_ask_again_is_reported_once(gone: list[int]) -> None:
    presence = watching(gone)
    presence.asked(7)
    presence.answered(7)
    await until("the silence is noticed", lambda: gone)
    await asyncio.sleep(0.1)
    assert gone == [7]


async def test_a_node_that_asks_again_is_there(gone: list[int]) -> None:
    presence = watching(gone)
    for _ in range(5):
        presence.asked(7)
        presence.answered(7)
    presence.asked(7)  # held open
    await asyncio.sleep(0.1)
    assert gone == []


async def test_who_does_not_lead_or_stops_reports_nobody(gone: list[int]) -> None:
    follower = watching(gone, leads=False)
    follower.cut(7)
    stopping = watching(gone)
    stopping.answered(8)
    stopping.stop()
    stopping.cut(9)
    await asyncio.sleep(0.1)
    assert gone == []
