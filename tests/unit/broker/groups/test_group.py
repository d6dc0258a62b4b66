"""What members of a classic group rely on."""

import pytest

from rookery.broker.groups.group import NEW_MEMBER_JOIN_TIMEOUT_MS, Group
from rookery.broker.groups.group_state import GroupOptions
from rookery.core.errors import ErrorCode
from tests.unit.broker.groups.driver import RANGE, Driver, subscription

FAST = GroupOptions(initial_rebalance_delay_ms=0)


@pytest.fixture
def driver() -> Driver:
    return Driver()


def codes(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]


def test_line_46_a_client_is_given_an_id_first_unless_it_is_too_old_or_static(driver: Driver) -> None:
    first = driver.join(client="app", version=4)
    assert codes(first.response) is ErrorCode.MEMBER_ID_REQUIRED
    assert first.response.member_id == "app-1"
    assert len(driver.group.members) == 0
    assert driver.join(first.response.member_id, version=4).waiting
    assert driver.join(version=3).waiting
    assert driver.join(instance="left").waiting
    assert [member.id for member in driver.group.members] == ["app-1", "client-2", "left-3"]


@pytest.mark.row(83, 100)
def test_line_47_joins_wait_for_the_initial_delay_so_that_a_herd_makes_one_rebalance(driver: Driver) -> None:
    joins = []
    for _ in range(100):
        joins.append(driver.join_known()[1])
        driver.wait(20)
    assert all(join.waiting for join in joins)
    driver.wait(2 * driver.options.initial_rebalance_delay_ms)
    assert {join.response.generation_id for join in joins} == {1}


def test_line_47_the_initial_delay_ends_with_the_rebalance_timeout_at_the_latest(driver: Driver) -> None:
    first = driver.join_known(rebalance_ms=8_000)[1]
    for _ in range(80):
        driver.join_known(rebalance_ms=8_000)
        driver.wait(100)
    assert first.response.generation_id == 1


@pytest.mark.row(95)
@pytest.mark.invariant("G6")
def test_line_47_joins_wait_for_known_members_and_drop_those_who_miss_it(driver: Driver) -> None:
    old, slow = driver.stable(2, session_ms=300_000)
    new, joining = driver.join_known(session_ms=300_000)
    assert driver.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.join(old, session_ms=300_000)
    driver.wait(59_999)
    assert again.waiting
    assert joining.waiting
    driver.wait(1)
    assert again.response.generation_id == 2
    assert {member.member_id for member in again.response.members} == {old, new}
    assert driver.heartbeat(slow, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_line_47_version_0_waits_for_the_session_timeout_instead(driver: Driver) -> None:
    driver.join(version=0, session_ms=7_000)
    assert next(iter(driver.group.members)).rebalance_timeout_ms == 7_000


def test_line_48_the_protocol_with_most_votes_among_those_all_speak_is_chosen() -> None:
    driver = Driver()
    data = subscription("t")
    votes = [("a", "b", "c"), ("c", "b"), ("d", "c", "b")]
    joins = [driver.join(version=3, protocols=[(name, data) for name in names]) for names in votes]
    driver.wait(6_001)
    assert {join.response.protocol_name for join in joins} == {"c"}
    assert {join.response.protocol_type for join in joins} == {"consumer"}


def test_line_48_only_the_leader_learns_of_the_members(driver: Driver) -> None:
    first, second = driver.join(version=3), driver.join(version=3)
    driver.wait(6_001)
    leader = first.response.leader
    assert leader == first.response.member_id == second.response.leader
    assert [member.metadata for member in first.response.members] == [subscription("t")] * 2
    assert list(second.response.members) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"protocols": [("roundrobin", b"")]}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody", "instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_line_48_joins_that_are_refused(driver: Driver, options: dict[str, object], error: ErrorCode) -> None:
    driver.stable()
    assert codes(driver.join(**options).response) is error  # type: ignore[arg-type]


def test_line_48_who_joins_when_the_only_member_left_before_the_group_began_is_taken(driver: Driver) -> None:
    """The group still waits for more members, and has none: whatever the next one speaks is fine."""
    first, _ = driver.join_known()
    driver.leave((first, None))
    assert len(driver.group.members) == 0
    second, joined = driver.join_known(protocols=[("roundrobin", subscription("t"))])
    driver.wait(driver.options.initial_rebalance_delay_ms * 2 + 1)
    assert codes(joined.response) is ErrorCode.NONE
    assert (joined.response.leader, joined.response.protocol_name) == (second, "roundrobin")


def test_line_48_an_empty_group_takes_any_type_but_none(driver: Driver) -> None:
    assert codes(driver.join(protocol_type="").response) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert codes(driver.join(protocols=[]).response) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert codes(driver.join("ghost", group="other").response) is ErrorCode.UNKNOWN_MEMBER_ID


def test_line_49_followers_wait_for_the_leader(driver: Driver) -> None:
    first, second = driver.join(version=3), driver.join(version=3)
    driver.wait(6_001)
    leader, follower = first.response.member_id, second.response.member_id
    waiting = driver.sync(follower, 1)
    assert waiting.waiting
    own = driver.sync(leader, 1, {leader: b"L", follower: b"F", "stranger": b"?"})
    assert own.response.assignment == b"L"
    assert waiting.response.assignment == b"F"
    assert driver.sync(follower, 1).response.assignment == b"F"


def test_line_49_syncs_that_are_refused(driver: Driver) -> None:
    leader, follower = driver.stable(2)
    assert codes(driver.sync(leader, 2).response) is ErrorCode.ILLEGAL_GENERATION
    assert codes(driver.sync("nobody", 1).response) is ErrorCode.UNKNOWN_MEMBER_ID
    wrong = driver.sync(leader, 1, protocol="sticky")
    assert codes(wrong.response) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    driver.leave((follower, None))
    assert codes(driver.sync(leader, 1).response) is ErrorCode.REBALANCE_IN_PROGRESS


def test_line_49_a_leader_that_dies_before_its_sync_sends_everybody_back(driver: Driver) -> None:
    first = driver.join(version=3, session_ms=6_000)
    second = driver.join(version=3, session_ms=20_000)
    driver.wait(6_001)
    follower = second.response.member_id
    waiting = driver.sync(follower, 1)
    driver.wait(6_000)
    assert codes(waiting.response) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(first.response.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    again = driver.join(follower)
    assert again.response.leader == follower
    assert again.response.generation_id == 2


def test_line_49_members_that_never_sync_are_given_up_after_the_rebalance_timeout(driver: Driver) -> None:
    first, second = (driver.join(version=3, session_ms=30_000, rebalance_ms=10_000) for _ in range(2))
    driver.wait(6_001)
    leader, follower = first.response.member_id, second.response.member_id
    driver.sync(leader, 1, {leader: b"L"})
    for _ in range(4):
        driver.wait(2_000)
        driver.heartbeat(leader, 1)
        driver.heartbeat(follower, 1)
    driver.wait(2_000)
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.row(106)
@pytest.mark.invariant("G1")
def test_line_50_heartbeats(driver: Driver) -> None:
    joining = driver.join(version=3)
    member = joining.response.member_id if joining.response else next(iter(driver.group.members)).id
    assert driver.heartbeat(member, 0) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.wait(3_000)
    assert driver.heartbeat(member, 1) is ErrorCode.NONE, "while the assignment is awaited"
    driver.sync(member, 1, {member: b""})
    assert driver.heartbeat(member, 1) is ErrorCode.NONE
    assert driver.heartbeat(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat(member, 2) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.leave((member, None))
    assert driver.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID, "in an empty group"


@pytest.mark.row(107)
def test_line_50_silence_ends_a_session_and_any_request_renews_it(driver: Driver) -> None:
    (member,) = driver.stable(1, session_ms=10_000)
    driver.wait(9_999)
    assert driver.heartbeat(member, 1) is ErrorCode.NONE
    driver.wait(9_999)
    driver.sync(member, 1)
    driver.wait(9_999)
    assert driver.heartbeat(member, 1) is ErrorCode.NONE
    driver.wait(10_000)
    assert driver.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.group.state.value == "Empty"


def static_group(driver: Driver, size: int = 2) -> list[str]:
    joins = [driver.join(instance=f"i{number}", rebalance_ms=20_000) for number in range(size)]
    driver.wait(6_001)
    members = [join.response.member_id for join in joins]
    for number, member in reversed(list(enumerate(members))):
        driver.sync(member, 1, {id: id.encode() for id in members} if number == 0 else None, instance=f"i{number}")
    return members


@pytest.mark.invariant("G1")
def test_line_51_a_static_member_comes_back_without_a_rebalance(driver: Driver) -> None:
    leader, follower = static_group(driver)
    again = driver.join(instance="i1")
    response = again.response
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, leader)
    assert response.member_id != follower
    assert driver.group.state.value == "Stable"
    assert driver.sync(response.member_id, 1, instance="i1").response.assignment == follower.encode()
    assert driver.heartbeat(follower, 1, "i1") is ErrorCode.FENCED_INSTANCE_ID
    assert codes(driver.sync(follower, 1, instance="i1").response) is ErrorCode.FENCED_INSTANCE_ID
    assert codes(driver.join(follower, instance="i1").response) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(leader, 1, "i0") is ErrorCode.NONE
    stored = driver.reload().groups["g"]
    assert isinstance(stored, Group)
    assert [member.id for member in stored.members] == [leader, response.member_id]


def test_line_51_a_leader_comes_back_and_skips_the_assignment(driver: Driver) -> None:
    leader, follower = static_group(driver)
    response = driver.join(instance="i0", version=9).response
    assert response.skip_assignment
    assert response.leader == response.member_id != leader
    assert {member.member_id for member in response.members} == {response.member_id, follower}


def test_line_51_an_older_client_is_kept_from_assigning_anew(driver: Driver) -> None:
    leader, _ = static_group(driver)
    response = driver.join(instance="i0", version=5).response
    assert not response.skip_assignment
    assert response.leader == leader != response.member_id
    assert list(response.members) == []


@pytest.mark.parametrize("protocols", [[("range", subscription("t", "u"))], [("range", b""), *RANGE]])
def test_line_51_with_another_subscription_it_rebalances(
    driver: Driver, protocols: list[tuple[str, bytes]]
) -> None:
    static_group(driver)
    assert driver.join(instance="i1", protocols=protocols).waiting
    assert driver.group.state.value == "PreparingRebalance"


def test_line_51_a_static_member_that_comes_back_while_others_join_takes_its_own_place(driver: Driver) -> None:
    leader, _ = static_group(driver)
    driver.join_known()
    first = driver.join(instance="i1")
    second = driver.join(instance="i1")
    waiting = driver.join(leader, instance="i0")
    assert codes(first.response) is ErrorCode.FENCED_INSTANCE_ID
    assert {waiting.response.generation_id, second.response.generation_id} == {2}


def test_line_51_while_the_assignment_is_awaited_it_rebalances(driver: Driver) -> None:
    joins = [driver.join(instance=f"i{number}") for number in range(2)]
    driver.wait(6_001)
    waiting = driver.sync(joins[1].response.member_id, 1, instance="i1")
    driver.join(instance="i1")
    assert codes(waiting.response) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.group.state.value == "PreparingRebalance"


def test_line_51_a_static_member_is_kept_over_a_rebalance_it_misses(driver: Driver) -> None:
    leader, absent = static_group(driver)
    driver.join_known()
    again = driver.join(leader, instance="i0")
    driver.wait(20_000)
    while again.waiting:
        driver.wait(20_000)
    members = {member.member_id for member in again.response.members}
    assert leader in members
    assert absent not in members, "its session was over"


def test_line_51_members_leave_in_one_request_and_by_instance(driver: Driver) -> None:
    members = static_group(driver, 3)
    response = driver.leave(("", "i0"), ("wrong", "i1"), (members[2], None), ("", "nobody"), ("ghost", None))
    assert [ErrorCode(each.error_code).name for each in response.members] == [
        "NONE", "FENCED_INSTANCE_ID", "NONE", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID",
    ]  # fmt: skip
    assert [member.id for member in driver.group.members] == [members[1]]
    assert driver.group.state.value == "PreparingRebalance"


def test_a_member_that_leaves_makes_the_others_rebalance(driver: Driver) -> None:
    first, second = driver.stable(2)
    assert driver.leave((second, None)).error_code == 0
    assert driver.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.join(first).response.generation_id == 2


def test_an_id_that_was_given_out_is_waited_for_until_its_session_is_over() -> None:
    driver = Driver(FAST)
    (member,) = driver.stable()
    driver.join(session_ms=6_000)
    driver.join_known()
    again = driver.join(member)
    driver.wait(5_999)
    assert again.waiting
    driver.wait(1)
    assert again.response.generation_id == 2


def test_an_id_can_be_given_back() -> None:
    driver = Driver(FAST)
    (member,) = driver.stable()
    idle = driver.join().response.member_id
    driver.join_known()
    again = driver.join(member)
    assert again.waiting
    driver.leave((idle, None))
    assert again.response.generation_id == 2


def test_followers_that_rejoin_unchanged_learn_the_current_generation(driver: Driver) -> None:
    leader, follower = driver.stable(2)
    assert driver.join(follower).response.generation_id == 1
    assert driver.group.state.value == "Stable"
    assert driver.join(leader).waiting, "a leader that joins asks for a rebalance"
    assert driver.group.state.value == "PreparingRebalance"


def test_a_join_whose_answer_was_lost_is_answered_again(driver: Driver) -> None:
    joining = driver.join(version=3)
    driver.wait(3_000)
    first = joining.response
    second = driver.join(first.member_id).response
    assert second == first


@pytest.mark.row(93)
def test_group_max_size_is_kept() -> None:
    driver = Driver(GroupOptions(initial_rebalance_delay_ms=0, max_size=2))
    (first,) = driver.stable()
    second, _ = driver.join_known()
    assert codes(driver.join().response) is ErrorCode.MEMBER_ID_REQUIRED
    driver.join(first)
    late = driver.join(version=3)
    assert codes(late.response) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert {member.id for member in driver.group.members} == {first, second}


def test_a_loaded_group_that_is_too_large_rebalances() -> None:
    driver = Driver()
    members = driver.stable(3)
    driver.options = GroupOptions(max_size=2)
    driver.reload()
    assert driver.group.state.value == "PreparingRebalance"
    joins = [driver.join(member) for member in members]
    assert codes(joins[2].response) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_new_member_whose_client_went_away_blocks_nobody_for_ever() -> None:
    driver = Driver(FAST)
    (member,) = driver.stable(session_ms=1_000_000, rebalance_ms=2_000_000)
    driver.join(version=3, session_ms=1_000_000, rebalance_ms=2_000_000)
    driver.wait(NEW_MEMBER_JOIN_TIMEOUT_MS)
    again = driver.join(member, session_ms=1_000_000)
    assert again.response.generation_id == 2


@pytest.mark.invariant("G6")
def test_a_new_member_that_repeats_its_join_goes_on_waiting() -> None:
    """Its session begins with its first answer, however often it asks before."""
    driver = Driver(FAST)
    (old,) = driver.stable(session_ms=100_000, rebalance_ms=100_000)
    new, first = driver.join_known(session_ms=10_000, rebalance_ms=100_000)
    driver.wait(5_000)
    repeated = driver.join(new, session_ms=10_000, rebalance_ms=100_000)
    assert codes(first.response) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.wait(30_000)
    assert repeated.waiting
    driver.join(old, session_ms=100_000, rebalance_ms=100_000)
    assert (codes(repeated.response), repeated.response.generation_id) == (ErrorCode.NONE, 2)


def test_a_new_member_that_repeats_its_join_and_goes_away_blocks_nobody_for_ever() -> None:
    driver = Driver(FAST)
    (old,) = driver.stable(session_ms=1_000_000, rebalance_ms=2_000_000)
    new, _ = driver.join_known(session_ms=1_000_000, rebalance_ms=2_000_000)
    driver.join(new, session_ms=1_000_000, rebalance_ms=2_000_000)
    driver.wait(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert driver.join(old, session_ms=1_000_000).response.generation_id == 2


@pytest.mark.invariant("G6")
def test_followers_stay_when_their_leader_dies_before_it_hands_in_the_assignment() -> None:
    """They waited for longer than their sessions last, which is not their fault."""
    driver = Driver()
    leader, *followers = driver.stable(3, session_ms=10_000)
    driver.join(leader)
    for follower in followers:
        driver.join(follower)
    syncs = [driver.sync(follower, 2) for follower in followers]
    driver.wait(9_000)
    assert driver.heartbeat(leader, 2) is ErrorCode.NONE
    driver.wait(9_000)
    assert all(sync.waiting for sync in syncs)
    driver.wait(1_000)
    assert {codes(sync.response) for sync in syncs} == {ErrorCode.REBALANCE_IN_PROGRESS}
    driver.wait(9_000)
    again = [driver.join(follower) for follower in followers]
    assert {codes(join.response) for join in again} == {ErrorCode.NONE}
    assert {member.member_id for member in again[0].response.members} == set(followers)


@pytest.mark.invariant("G3")
def test_what_cannot_be_written_never_happened(driver: Driver) -> None:
    leader, follower = driver.stable(2)
    driver.leave((follower, None))
    generation = driver.join(leader).response.generation_id
    driver.fail_writes = ErrorCode.COORDINATOR_NOT_AVAILABLE
    failed = driver.sync(leader, generation, {leader: b"all"})
    assert failed.response is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.fail_writes = None
    assert driver.group.generation == 1
    assert driver.heartbeat(leader, generation) is ErrorCode.ILLEGAL_GENERATION
    again = driver.join(leader)
    driver.wait(60_000)
    assert again.response.generation_id > generation, "a generation is never given out twice"


@pytest.mark.invariant("G1")
def test_a_group_lives_on_after_a_failover(driver: Driver) -> None:
    members = driver.stable(3)
    before = driver.state.as_stored()
    driver.reload()
    assert driver.state.as_stored() == before
    assert all(driver.heartbeat(member, 1) is ErrorCode.NONE for member in members)
    assert driver.sync(members[1], 1).response.assignment == members[1].encode()
    driver.wait(10_001)
    assert driver.group.state.value == "Empty"
