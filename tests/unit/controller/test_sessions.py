"""When brokers are given up: silence, closed connections, and the limits of haste."""

import pytest

from rookery.controller.sessions import Sessions
from rookery.core.metadata.image import Image
from tests.unit.controller.state.clusters import cluster

SESSION, GRACE = 9.0, 0.5


def sessions(image: Image, now: float = 0.0, grace: float = GRACE) -> Sessions:
    made = Sessions(session_s=SESSION, grace_s=grace)
    made.begin(image, now)
    return made


def hear(known: Sessions, image: Image, *brokers: int, now: float = 0.0) -> None:
    for broker in brokers:
        known.contact(broker, image.brokers[broker].epoch, now)


def given_up(known: Sessions, image: Image, now: float) -> list[tuple[int, bool]]:
    return [(overdue.broker_id, overdue.early) for overdue in known.overdue(image, now)]


@pytest.mark.row(69)
@pytest.mark.invariant("M10")
def test_a_full_session_of_silence() -> None:
    image = cluster()
    known = sessions(image, grace=0.0)
    hear(known, image, 1, now=5.0)
    assert given_up(known, image, 8.9) == []
    assert sorted(given_up(known, image, 9.0)) == [(2, False), (3, False)]
    assert (1, False) in given_up(known, image, 14.0)


@pytest.mark.invariant("M10")
def test_while_the_controller_stood_still_nobody_was_silent() -> None:
    image = cluster()
    known = sessions(image)
    hear(known, image, 1, 2, 3, now=1.0)
    known.opened(2, image.brokers[2].epoch, 1.0)
    known.closed(2, image.brokers[2].epoch, 1.0)
    known.stalled(20.0)
    assert given_up(known, image, 21.4) == []
    assert given_up(known, image, 21.5) == [(2, True)]
    assert sorted(given_up(known, image, 30.0)) == [(1, False), (2, False), (3, False)]


def test_a_fenced_broker_is_not_given_up_again() -> None:
    image = cluster(fenced=(1, 2, 3))
    assert given_up(sessions(image), image, 99.0) == []


def with_a_closed_connection(image: Image) -> Sessions:
    """All were heard; the connection of broker 2 ended at 3 s."""
    known = sessions(image)
    hear(known, image, 1, 2, 3)
    known.opened(2, image.brokers[2].epoch, 1.0)
    known.closed(2, image.brokers[2].epoch, 3.0)
    return known


def test_a_closed_connection_is_given_up_after_the_grace() -> None:
    image = cluster()
    known = with_a_closed_connection(image)
    assert given_up(known, image, 3.4) == []
    assert given_up(known, image, 3.5) == [(2, True)]


def test_who_comes_back_within_the_grace_is_kept() -> None:
    image = cluster()
    known = with_a_closed_connection(image)
    known.opened(2, image.brokers[2].epoch, 3.3)
    assert given_up(known, image, 4.0) == []


@pytest.mark.invariant("M10")
def test_a_request_that_arrives_behind_the_end_of_its_connection_is_no_return() -> None:
    """The last words of a killed broker give it another grace, not a whole session."""
    image = cluster()
    known = with_a_closed_connection(image)
    hear(known, image, 2, now=3.1)
    assert given_up(known, image, 3.5) == []
    assert given_up(known, image, 3.6) == [(2, True)]


def test_one_of_two_connections_is_enough() -> None:
    image = cluster()
    known = sessions(image)
    hear(known, image, 1, 2, 3)
    epoch = image.brokers[2].epoch
    known.opened(2, epoch, 1.0)
    known.opened(2, epoch, 1.5)
    known.closed(2, epoch, 2.0)
    assert given_up(known, image, 4.0) == []


def test_connections_of_an_earlier_life_do_not_count() -> None:
    image = cluster()
    known = sessions(image)
    hear(known, image, 1, 2, 3)
    known.opened(2, image.brokers[2].epoch, 1.0)
    known.closed(2, image.brokers[2].epoch - 1, 2.0)
    assert given_up(known, image, 4.0) == []


@pytest.mark.invariant("M10")
def test_a_new_controller_gives_up_early_who_does_not_connect_while_others_do() -> None:
    image = cluster()
    known = sessions(image, now=10.0)
    assert given_up(known, image, 11.0) == []  # nobody is heard: the fault may be here
    hear(known, image, 1, 2, now=11.0)
    assert given_up(known, image, 11.1) == [(3, True)]


@pytest.mark.invariant("M10")
def test_without_grace_nobody_is_given_up_early() -> None:
    image = cluster()
    known = sessions(image, grace=0.0)
    hear(known, image, 1, 2)
    known.opened(3, image.brokers[3].epoch, 0.0)
    known.closed(3, image.brokers[3].epoch, 1.0)
    assert given_up(known, image, 8.9) == []


def test_at_most_a_third_of_the_brokers_is_given_up_early_in_one_session() -> None:
    image = cluster(range(1, 7))
    known = sessions(image)
    hear(known, image, *range(1, 7))
    for broker in (1, 2, 3, 4):
        known.opened(broker, image.brokers[broker].epoch, 0.0)
        known.closed(broker, image.brokers[broker].epoch, 1.0)
    early = given_up(known, image, 2.0)
    assert len(early) == 2
    assert all(is_early for _, is_early in early)
    assert given_up(known, image, 3.0) == []
    assert all(not is_early for _, is_early in given_up(known, image, 10.5))


def test_who_came_back_as_a_new_process_was_given_up_rightly_and_counts_no_more() -> None:
    image = cluster()
    known = sessions(image)
    hear(known, image, 1, 2, 3)

    def lose(broker: int, at: float) -> None:
        known.opened(broker, image.brokers[broker].epoch, at)
        known.closed(broker, image.brokers[broker].epoch, at)

    lose(1, 1.0)
    assert given_up(known, image, 1.5) == [(1, True)]
    hear(known, image, 1, now=1.6)  # the same process: a false alarm
    lose(2, 2.0)
    assert given_up(known, image, 2.5) == []
    known.forget(1)  # taken out, and registered anew
    hear(known, image, 1, now=2.6)
    assert given_up(known, image, 2.7) == [(2, True)]


def test_liveness_for_registration_and_shutdown() -> None:
    image = cluster(stopping=(3,))
    known = sessions(image)
    assert known.liveness(image, 1, 0.1).in_session
    assert not known.liveness(image, 1, 0.6).in_session  # not heard of within the grace
    hear(known, image, 1, now=0.7)
    assert known.liveness(image, 1, 0.8).in_session
    assert known.liveness(image, 3, 0.8).shutdown_offset == image.offset
    known.contact(1, image.brokers[1].epoch, 1.0, metadata_offset=50)
    known.contact(2, image.brokers[2].epoch, 1.0, metadata_offset=40)
    assert known.liveness(image, 3, 1.0).others_offset == 40
    known.forget(1)
    assert not known.liveness(image, 1, 1.0).in_session
