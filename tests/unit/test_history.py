"""The checker finds what it is there to find."""

import pytest

from rookery.testing.history import History


def clean() -> History:
    history = History()
    for number in range(5):
        value = b"v%d" % number
        history.on_sent(0, value)
        history.on_acked(0, number, value)
        history.on_read(0, number, value)
    return history


def test_a_clean_history_has_no_anomaly() -> None:
    history = clean()
    history.on_sent(0, b"unanswered")
    assert history.anomalies() == []
    history.on_read(0, 5, b"unanswered")
    assert history.anomalies() == []


def _lost(history: History) -> None:
    history.read[0].pop()


def _replaced(history: History) -> None:
    history.read[0][2] = (2, b"v9")
    history.on_sent(0, b"v9")


def _duplicated(history: History) -> None:
    history.on_read(0, 5, b"v4")


def _phantom(history: History) -> None:
    history.on_read(0, 5, b"from nowhere")


def _reordered(history: History) -> None:
    history.on_sent(0, b"first")
    history.on_sent(0, b"second")
    history.on_read(0, 5, b"second")
    history.on_read(0, 6, b"first")


def _two_values(history: History) -> None:
    history.on_read(0, 4, b"v4")
    history.on_read(0, 4, b"other")
    history.on_sent(0, b"other")


def _went_back(history: History) -> None:
    history.on_read(0, 1, b"v1")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_lost, "acknowledged at 4 is lost"),
        (_replaced, "acknowledged at 2 is lost"),
        (_duplicated, "is stored at [4, 5]"),
        (_phantom, "was never sent"),
        (_reordered, "not in the order they were sent"),
        (_two_values, "was read with two values"),
        (_went_back, "the consumer went back"),
    ],
)
def test_each_anomaly_is_found(damage: object, says: str) -> None:
    history = clean()
    damage(history)  # type: ignore[operator]
    assert any(says in anomaly for anomaly in history.anomalies())
