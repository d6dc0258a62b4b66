"""Pauses after work that kept the loop for long."""

from rookery.core.write_pause import HELD_UP_S, PAUSE_S_MAX, WritePause, pause_after_s


def test_as_long_again_but_within_bounds() -> None:
    assert pause_after_s(HELD_UP_S) == 0.0
    assert pause_after_s(0.3) == 0.3
    assert pause_after_s(30.0) == PAUSE_S_MAX


def test_ordinary_work_does_not_end_a_pause() -> None:
    write_pause = WritePause()
    write_pause.held_up(0.3, 100.0)
    write_pause.held_up(0.001, 100.1)
    assert write_pause.until == 100.3
