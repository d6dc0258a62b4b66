"""The pure choice of the replica that a consumer reads from."""

import pytest

from rookery.broker.handlers.preferred_replica import Readable, closest

NEAR = Readable(2, "a", log_end=10, behind_ms=0)
FAR = Readable(3, "b", log_end=10, behind_ms=0)


@pytest.mark.parametrize(
    ("rack", "leader_rack", "expected"),
    [
        ("a", "b", 2),  # a follower stands in the consumer's rack
        ("b", "b", None),  # the leader does
        ("c", "b", None),  # nobody does
        ("", "b", None),  # the consumer does not say where it is
        ("a", None, 2),
    ],
)
def test_a_follower_in_the_rack_unless_the_leader_is(rack: str, leader_rack: str | None, expected: int | None) -> None:
    assert closest(rack, leader_rack, [NEAR, FAR]) == expected


def test_a_consumer_without_a_rack_is_not_sent_to_brokers_without_one() -> None:
    assert closest("", "b", [Readable(2, "", 10, 0), Readable(3, None, 10, 0)]) is None


@pytest.mark.parametrize(
    "worse",
    [
        Readable(9, "a", log_end=9, behind_ms=0),  # has less
        Readable(9, "a", log_end=10, behind_ms=1),  # was behind for longer
        Readable(1, "a", log_end=10, behind_ms=0),  # nothing but the number tells them apart
    ],
)
def test_of_several_the_one_that_has_most(worse: Readable) -> None:
    assert closest("a", "b", [worse, NEAR]) == closest("a", "b", [NEAR, worse]) == 2
