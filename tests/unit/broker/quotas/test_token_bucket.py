"""Tokens: who waits as told never owes for long, and gets no more than comes in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.broker.quotas.token_bucket import TokenBucket
from rookery.broker.quotas.usage import Window


@given(
    bound=st.integers(1, 10),
    steps=st.lists(st.tuples(st.integers(1, 200), st.floats(0, 5)), max_size=40),
)
def test_whoever_waits_as_told_gets_what_comes_in_what_fits_and_one_lump(
    bound: int, steps: list[tuple[int, float]]
) -> None:
    window = Window(3, 1)
    bucket, now, total = TokenBucket(bound, window, 0.0), 0.0, 0
    for count, pause in steps:
        now += pause
        delay_ms = bucket.delay_ms(now)
        assert (delay_ms > 0) == (bucket.tokens(now) < 0)
        now += delay_ms / 1000
        assert bucket.tokens(now) >= -1e-9, "that is when nothing is owed"
        bucket.take(count, now)
        total += count
        assert total - count <= bound * (now + 3) + 1e-6


def test_a_new_bound_keeps_what_is_owed() -> None:
    bucket = TokenBucket(1, Window(3, 1), 0.0)
    bucket.take(13, 0.0)
    assert bucket.delay_ms(0.0) == 10_000
    bucket.set_bound(5, 2.0)
    assert bucket.tokens(2.0) == pytest.approx(-8)
    assert bucket.delay_ms(2.0) == 1600
    assert bucket.tokens(100.0) == 15
