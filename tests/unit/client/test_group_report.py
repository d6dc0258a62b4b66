"""Why a group lags: every reason provoked, and silence where nothing is wrong."""

from rookery.client.admin.types import GroupDescription, MemberDescription
from rookery.client.group_report import GroupFacts, PartitionFacts, explain
from rookery.client.types import TopicPartition


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


def test_a_partition_without_a_leader() -> None:
    assert "orders-0 cannot be read" in reasons(facts(partition(0, 0, 5, leader=-1), members=(member("a", 0),)))


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
