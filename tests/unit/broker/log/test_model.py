"""PartitionLog against a naive model: any order of appends, transactions, truncations, restarts and
losses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.broker.log.model import Driver


@pytest.mark.row(14, 15, 44)
@pytest.mark.invariant("T1", "T2", "T5", "T9", "S5", "P15")
@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_any_history_looks_like_the_model(seed: int) -> None:
    Driver(seed, compact=False).run(60)


@pytest.mark.row(44)
@pytest.mark.invariant("S5")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_any_compacted_history_looks_like_the_model(seed: int) -> None:
    Driver(seed, compact=True).run(60)
