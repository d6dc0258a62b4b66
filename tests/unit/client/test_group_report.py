"""Why a group lags: every reason provoked, and silence where nothing is wrong."""

from dataclasses import replace

import pytest

from rookery.client.admin.types import GroupDescription, MemberDescription
from rookery.client.group_report import NO_LEADER, NOT_THERE, GroupFacts, PartitionFacts, explain
from rookery.client.types import TopicPartition
from rookery.core.flight_recorder import Event

NOW = 1_700_000_000_000


def place(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def partition(
    number: int, committed: int, end: int, *, start: int = 0, leader: int = 1, before: tuple[int, int] = (-1, -1)
) -> PartitionFacts:
    return PartitionFacts(place(number), committed, start, end, leader, -1.0, *before)


def member(name: str, *numbers: int, epoch: int | None = None) -> MemberDescription:
    return MemberDescription(f"{name}-id", name, "10.0.0.1", None, [place(n) for n in numbers], None, epoch)


def facts(
    *partitions: PartitionFacts,
    members: tuple[MemberDescription, ...] = (),
    state: str = "Stable",
    epoch: int | None = None,
    sample_s: float = 0.0,
) -> GroupFacts:
    group = GroupDescription("billing", state, "classic", "range", 1, list(members), epoch)
    return GroupFacts(group, list(partitions), sample_s)


def reasons(given: GroupFacts) -> str:
    return "; ".join(finding.reason for finding in explain(given))


def test_a_group_without_lag_has_no_reason() -> None:
    assert explain(facts(partition(0, 10, 10), members=(member("a", 0),))) == []
    assert explain(facts(partition(0, 10, 10))) == []


def test_nobody_consumes() -> None:
    assert "no consumer runs: the group has no members, and 7 record(s) wait" in reasons(facts(partition(0, 3, 10)))


def test_retention_overtook_it_even_without_lag() -> None:
    found = reasons(facts(partition(0, 3, 10, start=10), members=(member("a", 0),)))
    assert "7 record(s) of orders-0 were deleted before they were read" in found


def test_a_partition_without_a_leader_even_if_nobody_knows_how_much_waits() -> None:
    dead = partition(0, 5, 5, leader=NO_LEADER)
    assert "orders-0 cannot be read: no leader" in reasons(facts(dead, members=(member("a", 0),)))
    assert "orders-0 cannot be read" in reasons(facts(dead))
    assert explain(facts(partition(0, 5, 5, leader=NOT_THERE))) == [], "offsets of a deleted topic are no lag"


def test_retention_that_comes_near() -> None:
    near = replace(partition(0, 3, 10), lag_s=85.0, retention_s=100.0)
    found = reasons(facts(near, members=(member("a", 0),)))
    assert "retention is about to overtake it: the next record of orders-0 is 85 s old" in found
    assert "lose records in about 15 s" in found
    for far in (replace(near, lag_s=70.0), replace(near, retention_s=-1.0), replace(near, lag_s=-1.0)):
        assert "overtake" not in reasons(facts(far, members=(member("a", 0),)))
    assert "when their oldest segment is deleted" in reasons(facts(replace(near, lag_s=200.0)))


def test_an_open_transaction_holds_records_back() -> None:
    held = replace(partition(0, 3, 10), stable=3)
    found = reasons(facts(held, members=(member("a", 0),)))
    assert "an open transaction holds back 7 record(s) of orders-0" in found
    assert "transaction" not in reasons(facts(replace(held, stable=4), members=(member("a", 0),)))


def rebalance(what: str, member: str = "", why: str = "", *, ago_s: int = 60) -> Event:
    fields = {"group": "billing", "what": what, "member": member, "why": why}
    return Event(1, NOW - ago_s * 1000, 1, "INFO", "group.rebalance", fields)


@pytest.mark.parametrize(
    ("why", "remedy"),
    [
        ("left: the user did not poll", "max.poll.records"),
        ("left: consumer poll timeout has expired.", "max.poll.records"),
        ("did not join within the rebalance timeout", "max.poll.records"),
        ("no heartbeat within the session timeout", "it dies, is killed, or stands still"),
        ("left", "closed again and again"),
    ],
)
def test_a_loop_of_rebalances_with_its_cause(why: str, remedy: str) -> None:
    once = [rebalance("joined", "m1", "worker-1"), rebalance("assigned"), rebalance("removed", "m1", why)]
    lagging = facts(partition(0, 0, 5), members=(member("a", 0),))
    looping = replace(lagging, events=[*once * 3, rebalance("removed", "m2", "another", ago_s=0)], now_ms=NOW)
    (finding,) = explain(looping)
    assert finding.reason == (
        "it rebalances again and again: 3 assignments and 4 members removed within 1 min, "
        f"3 of them because: {why} (worker-1)"
    )
    assert remedy in finding.remedies[0]
    assert explain(replace(looping, partitions=[])) == [finding], "who never gets to commit has no lag that is known"
    assert "again and again" not in reasons(replace(looping, events=once)), "one restart is no loop"
    assert "again and again" not in reasons(replace(looping, now_ms=NOW + 3_600_000)), "it ended an hour ago"


@pytest.mark.row(131)
def test_where_the_lag_is() -> None:
    """Everywhere, in one topic, or in one partition."""

    def lag(*lags: int) -> str:
        """Of two topics with two partitions, each with two members."""
        places = [TopicPartition(topic, number) for topic in ("orders", "clicks") for number in (0, 1)]
        parts = [PartitionFacts(place, 0, 0, end, 1) for place, end in zip(places, lags, strict=True)]
        members = tuple(MemberDescription(name, name, "h", None, places[at::2]) for at, name in enumerate("ab"))
        return reasons(facts(*parts, members=members))

    assert "spread over 4 partitions and 2 member(s)" in lag(10, 10, 10, 10)
    assert "one topic has 80 of 84 record(s): clicks, in 2 partition(s)" in lag(2, 2, 40, 40)
    assert "one partition has 80 of 92 record(s): clicks-1 (member b at h)" in lag(4, 4, 4, 80)
    assert "one member has 80 of 84 record(s): b" in lag(2, 40, 2, 40)


def test_a_rebalance_names_who_is_behind() -> None:
    found = reasons(
        facts(partition(0, 0, 5), members=(member("slow", 0, epoch=3),), state="Reconciling", epoch=4)
    )
    assert "rebalancing (state Reconciling); slow did not take the new assignment yet" in found


def test_partitions_that_nobody_has() -> None:
    found = reasons(facts(partition(0, 0, 5), partition(1, 0, 5), members=(member("a", 0),)))
    assert "1 partition(s) with 5 record(s) have no member: orders-1" in found


def test_one_hot_partition_with_its_member() -> None:
    found = reasons(facts(partition(0, 0, 90), partition(1, 85, 90), members=(member("a", 0), member("b", 1))))
    assert "one partition has 90 of 95 record(s): orders-0 (member a at 10.0.0.1)" in found


def test_one_slow_member() -> None:
    parts = [partition(0, 0, 50), partition(1, 0, 50), partition(2, 50, 50)]
    found = reasons(facts(*parts, members=(member("slow", 0, 1), member("quick", 2))))
    assert "one member has 100 of 100 record(s): slow at 10.0.0.1" in found


def test_no_commit_between_two_looks() -> None:
    found = reasons(facts(partition(0, 5, 90, before=(5, 80)), members=(member("a", 0),), sample_s=2))
    assert "it committed nothing within 2 s" in found


def test_more_comes_than_is_handled() -> None:
    found = reasons(facts(partition(0, 15, 90, before=(5, 60)), members=(member("a", 0),), sample_s=2))
    assert "30 new, 10 committed within 2 s" in found


def test_it_catches_up_and_when() -> None:
    found = reasons(facts(partition(0, 45, 90, before=(5, 85)), members=(member("a", 0),), sample_s=5))
    assert "it catches up: 40 committed, 5 new within 5 s; done in about 6 s" in found


def test_lag_without_a_special_reason_is_still_named() -> None:
    parts = [partition(n, 0, 10) for n in range(4)]
    found = reasons(facts(*parts, members=(member("a", 0, 1), member("b", 2, 3))))
    assert "it is 40 record(s) behind, spread over 4 partitions and 2 member(s)" in found
