import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.broker.replication.truncation import (
    TruncationBelowHighWatermarkError,
    check_truncation,
    truncation_offset,
)
from rookery.core.log.epochs import LeaderEpochs


def history(epochs: list[int]) -> LeaderEpochs:
    """The epochs of a log, given as the list of its records' epochs."""
    starts = LeaderEpochs()
    for offset, epoch in enumerate(epochs):
        starts.assign(epoch, offset)
    return starts


def follow(leader: list[int], follower: list[int]) -> list[int]:
    """Fetch and truncate as the two sides do until they agree, then copy the rest."""
    leading = history(leader)
    leading.assign(99, len(leader))  # a leader's own epoch begins where its log ends
    for _ in range(len(follower) + 2):
        if not follower:
            return leader
        epoch, end = leading.end_offset_for(follower[-1], len(leader))
        assert epoch >= 0
        if epoch == follower[-1] and end >= len(follower):
            return follower + leader[len(follower) :]
        cut = truncation_offset(
            leader_epoch=epoch, leader_end=end, epochs=history(follower), log_end=len(follower)
        )
        assert 0 <= cut < len(follower), "each round must get nearer"
        follower = follower[:cut]
    raise AssertionError("the two sides do not come to agree")


@pytest.mark.row(64)
@pytest.mark.invariant("P6")
@pytest.mark.parametrize(
    ("leader", "follower", "common"),
    [
        ([0, 0, 1], [0, 0], 2),  # only behind
        ([0, 2, 2], [0, 1, 1], 1),  # wrote in an epoch the leader never saw
        ([0, 0, 0, 3], [0, 0, 1, 1, 2], 2),  # two lost epochs at once: fast failover
        ([1, 1], [0, 0, 0], 0),
    ],
)
def test_a_follower_comes_to_its_leaders_history(leader: list[int], follower: list[int], common: int) -> None:
    assert leader[:common] == follower[:common]
    assert follow(leader, follower) == leader


@pytest.mark.invariant("P6")
@given(st.data())
def test_whatever_the_histories_the_common_prefix_is_kept(data: st.DataObject) -> None:
    """Logs that agree on a prefix and differ in epochs after it, as epochs guarantee."""
    prefix = sorted(data.draw(st.lists(st.integers(0, 3), max_size=6)))
    floor = max(prefix, default=0)
    lost = sorted(data.draw(st.lists(st.sampled_from([floor + 1, floor + 3]), max_size=4)))
    newer = sorted(data.draw(st.lists(st.sampled_from([floor + 2, floor + 4]), max_size=4)))
    assert follow(prefix + newer, prefix + lost)[: len(prefix)] == prefix
    assert follow(prefix + newer, prefix + lost) == prefix + newer


@pytest.mark.invariant("P7")
def test_committed_records_are_dropped_only_after_an_unclean_election() -> None:
    check_truncation(10, 10, counted_on=True, partition="t-0")
    check_truncation(3, 10, counted_on=False, partition="t-0")
    with pytest.raises(
        TruncationBelowHighWatermarkError, match=r"t-0: .* truncation to 3, below the high watermark 10"
    ):
        check_truncation(3, 10, counted_on=True, partition="t-0")
