"""How much was used lately, compared with a record of every use."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.broker.quotas.usage import TokenBucket, Usage, Window

_windows = st.builds(Window, st.integers(1, 5), st.sampled_from((1, 2)))
_uses = st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 8).map(lambda x: round(x, 2))), max_size=40)


def model(window: Window, uses: list[tuple[int, float]], now: float) -> tuple[list[int], float]:
    """The amounts that count, and the time they are spread over."""
    first = now // window.seconds - window.samples + 1
    counted = [(amount, at // window.seconds) for amount, at in uses if at // window.seconds >= first]
    since = min((number for _, number in counted), default=now / window.seconds) * window.seconds
    return [amount for amount, _ in counted], max(now - since, max(window.samples - 1, 1) * window.seconds)


@settings(max_examples=200)
@given(window=_windows, steps=_uses, bound=st.integers(1, 2000))
def test_it_counts_what_lies_in_the_window(window: Window, steps: list[tuple[int, float]], bound: int) -> None:
    usage, uses, now = Usage(window), list[tuple[int, float]](), 1000.0
    for amount, pause in steps:
        now += pause
        usage.add(amount, now)
        uses.append((amount, now))
        amounts, elapsed = model(window, uses, now)
        assert usage.amount(now) == pytest.approx(sum(amounts))
        assert usage.mean(now) == pytest.approx(sum(amounts) / len(amounts))
        assert usage.rate(now) == pytest.approx(sum(amounts) / elapsed)
        delay = usage.delay_s(bound, now)
        assert (delay > 0) == (usage.rate(now) > bound * (1 + 1e-12)) or math.isclose(usage.rate(now), bound)
        assert delay == pytest.approx(max(0.0, sum(amounts) / bound - elapsed))
    assert usage.amount(now + 100) == 0 == usage.mean(now + 100)


@settings(max_examples=200)
@given(
    window=_windows,
    bound=st.integers(100, 1000),
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=60),
    pauses=st.lists(st.floats(0, 3), max_size=60),
)
def test_whoever_waits_as_asked_is_bounded(
    window: Window, bound: int, sizes: list[int], pauses: list[float]
) -> None:
    """Samples are forgotten whole, and less than a window of use is no excess: so what is taken in large pieces
    may reach twice the bound, and with what a window holds at once and one use there it ends."""
    usage, now, uses = Usage(window), 50.0, list[tuple[float, int]]()
    saved = bound * (window.samples + 1) * window.seconds
    for number, size in enumerate(sizes):
        now += pauses[number] if number < len(pauses) else 0.0
        usage.add(size, now)
        uses.append((now, size))
        now += usage.delay_s(bound, now)
    for number, (begin, _) in enumerate(uses):
        total = 0
        for at, size in uses[number:]:
            total += size
            assert total <= 2 * bound * (at - begin) + saved + max(sizes)


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_who_takes_small_pieces_for_long_keeps_to_the_bound(size: int) -> None:
    usage, now, total = Usage(Window()), 0.0, 0
    while now < 600:
        usage.add(size, now)
        total += size
        now += usage.delay_s(1000, now)
    assert 0.8 * 1000 * now < total < 1000 * (now + 11)


@given(
    bound=st.integers(1, 10),
    steps=st.lists(st.tuples(st.integers(1, 200), st.floats(0, 5)), max_size=40),
)
def test_whoever_waits_as_asked_gets_what_comes_in_what_fits_and_one_lump(
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
