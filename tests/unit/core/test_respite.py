"""Pauses after work that kept the loop for long."""

from rookery.core.respite import HELD_UP_S, RESPITE_S_MAX, Respite, respite_s


def test_as_long_again_but_within_bounds() -> None:
    assert respite_s(HELD_UP_S) == 0.0
    assert respite_s(0.3) == 0.3
    assert respite_s(30.0) == RESPITE_S_MAX


def test_ordinary_work_does_not_end_a_pause() -> None:
    respite = Respite()
    respite.held_up(0.3, 100.0)
    respite.held_up(0.001, 100.1)
    assert respite.until == 100.3
