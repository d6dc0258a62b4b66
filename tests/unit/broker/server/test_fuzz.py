"""Mutated frames harm nobody but their sender, and find no bug."""

import pytest

from tests.unit.broker.server.fuzz import fuzz


@pytest.mark.parametrize("seed", range(5))
async def test_mutated_frames_harm_only_their_sender(seed: int) -> None:
    totals = await fuzz(frames=20_000, seed=seed)
    closed, answered = totals["closed"], totals["answered"]
    assert isinstance(closed, int)
    assert isinstance(answered, int)
    assert closed > 2000, "many mutations cannot be read"
    assert answered > 2000, "many can, and reach the handlers"
