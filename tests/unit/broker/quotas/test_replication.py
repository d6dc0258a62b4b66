"""Limits on replicas that catch up."""

import pytest

from rookery.broker.quotas.replication import Replica, ReplicationQuota
from rookery.core.testing.clock import ManualClock

NODE_ID = 3


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.advance(100)
    return clock


@pytest.fixture
def quota(clock: ManualClock) -> ReplicationQuota:
    quota = ReplicationQuota(NODE_ID, clock.monotonic)
    quota.rate = 1000
    return quota


@pytest.mark.row(71)
@pytest.mark.parametrize(
    ("words", "in_sync", "applies"),
    [
        (("0:3",), False, True),
        (("*",), False, True),
        (("1:3", "0:3"), False, True),
        (("0:3",), True, False),
        (("0:4",), False, False),
        (("1:3",), False, False),
        ((), False, False),
    ],
)
def test_only_replicas_that_are_named_and_out_of_sync_are_limited(
    quota: ReplicationQuota, words: tuple[str, ...], in_sync: bool, applies: bool
) -> None:
    assert quota.applies_to(Replica(words, 0, in_sync)) is applies


def test_without_a_rate_nobody_is_limited(clock: ManualClock) -> None:
    quota = ReplicationQuota(NODE_ID, clock.monotonic)
    assert not quota.applies_to(Replica(("*",), 0, False))


@pytest.mark.row(71)
def test_the_rate_holds_over_time(quota: ReplicationQuota, clock: ManualClock) -> None:
    sent = 0
    for _ in range(1000):
        if not quota.exceeded:
            quota.took(700)
            sent += 700
        clock.advance(0.1)
    assert 100 * 1000 * 0.98 <= sent <= 101 * 1000 + 700, "100 s at 1000 bytes a second, one second saved up before"


def test_a_pause_is_not_followed_by_a_long_burst(quota: ReplicationQuota, clock: ManualClock) -> None:
    quota.took(1000)
    clock.advance(3600)
    quota.took(1000)
    assert not quota.exceeded
    quota.took(100)
    assert quota.exceeded


def test_a_new_rate_forgets_what_was_owed(quota: ReplicationQuota) -> None:
    quota.took(1_000_000)
    assert quota.wait_s == pytest.approx(999)
    quota.rate = 2000
    assert not quota.exceeded
