"""Committed offsets: who may commit, what is fetched, when they go."""

from uuid import UUID

import pytest

from rookery.broker.groups.committing import commit, commit_in_transaction, fetch
from rookery.broker.groups.deleting import delete_group, delete_offsets, drop_stale, drop_topics, expire
from rookery.broker.groups.group_state import GroupOptions
from rookery.broker.groups.listing import described, listed
from rookery.broker.groups.records import GroupMetadataValue, GroupRecord, OffsetCommitValue, OffsetRecord
from rookery.broker.groups.step import Step
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from rookery.core.wire.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from rookery.core.wire.apis.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from rookery.core.wire.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.broker.groups.driver import GROUP, Caller, Driver, subscription

WEEK_MS = 7 * 24 * 3_600_000


@pytest.fixture
def driver() -> Driver:
    return Driver(GroupOptions(initial_rebalance_delay_ms=0))


def commits(
    driver: Driver,
    offset: int = 10,
    *,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    group: str = GROUP,
    topic: str = "t",
    metadata: str | None = None,
    retention_ms: int = -1,
    version: int = 9,
) -> ErrorCode:
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
        ],
    )
    caller = Caller()
    try:
        driver.run(commit(driver.state, request, caller, driver.now, driver.topic_id_of, version=version))
    except KafkaError as error:
        return error.code
    if isinstance(caller.response, ErrorCode):
        return caller.response  # it could not be written
    return ErrorCode(caller.response.topics[0].partitions[0].error_code)


def fetched(driver: Driver, topic: str = "t", *, group: str = GROUP, stable: bool = False) -> tuple[int, str, int]:
    request = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    )
    answer = fetch(driver.state, request, driver.topic_id_of, require_stable=stable).topics[0].partitions[0]
    return answer.committed_offset, answer.metadata or "", answer.error_code


@pytest.mark.invariant("G1", "G4")
def test_line_52_members_commit_in_their_generation_and_nobody_else_does(driver: Driver) -> None:
    (member,) = driver.stable()
    assert commits(driver, member=member, generation=1) is ErrorCode.NONE
    assert commits(driver, member=member, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert commits(driver, member="zombie", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commits(driver) is ErrorCode.UNKNOWN_MEMBER_ID, "without a name, while there are members"
    assert commits(driver, generation=3, group="nowhere", version=8) is ErrorCode.ILLEGAL_GENERATION
    assert commits(driver, generation=3, group="nowhere") is ErrorCode.GROUP_ID_NOT_FOUND
    assert "nowhere" not in driver.state.groups


def test_line_52_anybody_commits_to_an_empty_group(driver: Driver) -> None:
    assert commits(driver, group="simple") is ErrorCode.NONE
    (member,) = driver.stable()
    driver.leave((member, None))
    assert commits(driver) is ErrorCode.NONE
    assert commits(driver, member=member, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_line_52_while_the_assignment_is_awaited_commits_are_refused_before_that_not(driver: Driver) -> None:
    first, second = driver.stable(1)[0], driver.join_known()[0]
    assert commits(driver, member=first, generation=1) is ErrorCode.NONE, "in PreparingRebalance"
    driver.join(first)
    assert commits(driver, member=second, generation=2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_line_52_a_fenced_instance_does_not_commit(driver: Driver) -> None:
    old = driver.join(instance="i").response.member_id
    driver.sync(old, 1, {old: b""}, instance="i")
    new = driver.join(instance="i").response.member_id
    assert commits(driver, member=old, generation=1, instance="i") is ErrorCode.FENCED_INSTANCE_ID
    assert commits(driver, member=new, generation=1, instance="i") is ErrorCode.NONE


def test_line_52_notes_are_small_and_partitions_exist(driver: Driver) -> None:
    assert commits(driver, metadata="x" * 4096) is ErrorCode.NONE
    assert commits(driver, metadata="x" * 4097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commits(driver, topic="unknown") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched(driver) == (10, "x" * 4096, 0)


def test_a_commit_renews_the_session(driver: Driver) -> None:
    (member,) = driver.stable(session_ms=10_000)
    for _ in range(3):
        driver.wait(9_000)
        assert commits(driver, member=member, generation=1) is ErrorCode.NONE


@pytest.mark.row(104)
def test_line_53_what_was_committed_is_fetched_and_nothing_is_no_error(driver: Driver) -> None:
    assert fetched(driver) == (-1, "", 0)
    commits(driver, 10)
    assert fetched(driver) == (10, "", 0)
    assert fetched(driver, "other") == (-1, "", 0)
    everything = fetch(
        driver.state, OffsetFetchRequestGroup(group_id=GROUP, topics=None), driver.topic_id_of, require_stable=False
    )
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in everything.topics] == [
        ("t", [0])
    ]
    unknown = fetch(
        driver.state, OffsetFetchRequestGroup(group_id="?", topics=None), driver.topic_id_of, require_stable=False
    )
    assert (list(unknown.topics), unknown.error_code) == ([], 0)


def test_line_53_offsets_in_a_transaction_are_unstable_until_it_ends(driver: Driver) -> None:
    commits(driver, 10)
    value = OffsetCommitValue(offset=20, metadata="", commit_timestamp=0)
    for producer, ends in ((7, True), (8, False)):
        driver.state.replay(OffsetRecord(GROUP, "t", 0, value), 50, producer)
        assert fetched(driver, stable=True)[2] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        before = fetched(driver)
        assert before[2] == 0
        driver.state.end_transaction(producer, ends)
        assert fetched(driver, stable=True) == ((20, "", 0) if ends else before)


def test_line_53_a_transaction_does_not_undo_a_later_commit(driver: Driver) -> None:
    value = OffsetCommitValue(offset=20, metadata="", commit_timestamp=0)
    driver.state.replay(OffsetRecord(GROUP, "t", 0, value), 0, 7)
    driver.log.append(OffsetRecord(GROUP, "t", 0, None))
    commits(driver, 30)
    driver.state.end_transaction(7, True)
    assert fetched(driver) == (30, "", 0)


def expired(driver: Driver) -> None:
    for group in list(driver.state.groups.values()):
        driver.run(expire(driver.state, group, driver.now, driver.topic_id_of))


def test_line_54_simple_consumers_offsets_expire_after_their_commit(driver: Driver) -> None:
    commits(driver, group="simple")
    driver.wait(WEEK_MS - 1)
    expired(driver)
    assert fetched(driver, group="simple")[0] == 10
    driver.wait(1)
    expired(driver)
    assert "simple" not in driver.state.groups
    assert driver.reload().groups == {}


def test_line_54_a_groups_offsets_expire_after_its_last_member_left(driver: Driver) -> None:
    (member,) = driver.stable(session_ms=1_800_000)
    commits(driver, member=member, generation=1)
    for _ in range(500):
        driver.wait(1_700_000)
        driver.heartbeat(member, 1)
    expired(driver)
    assert fetched(driver)[0] == 10, "long after the commit, but there is a member"
    driver.leave((member, None))
    driver.wait(WEEK_MS - 1)
    expired(driver)
    assert fetched(driver)[0] == 10
    driver.reload()
    driver.wait(1)
    expired(driver)
    assert GROUP not in driver.state.groups
    assert driver.log[-1] == GroupRecord(GROUP, None)


def test_line_54_topics_nobody_subscribes_to_any_more_expire_in_a_living_group(driver: Driver) -> None:
    (member,) = driver.stable(session_ms=1_800_000, protocols=[("range", subscription("t"))])
    commits(driver, member=member, generation=1)
    commits(driver, member=member, generation=1, topic="old")
    for _ in range(400):
        driver.wait(1_700_000)
        driver.heartbeat(member, 1)
    expired(driver)
    assert fetched(driver)[0] == 10
    assert fetched(driver, "old")[0] == -1


def test_line_54_old_clients_say_how_long_to_keep_an_offset(driver: Driver) -> None:
    commits(driver, group="simple", retention_ms=1_000)
    driver.reload()
    driver.wait(1_000)
    expired(driver)
    assert "simple" not in driver.state.groups


def test_line_54_offsets_of_deleted_topics_go(driver: Driver) -> None:
    commits(driver)
    commits(driver, topic="kept")
    driver.run(drop_topics(driver.group, lambda topic: topic == "t"))
    assert fetched(driver)[0] == -1
    assert fetched(driver, "kept")[0] == 10


@pytest.mark.invariant("M12")
def test_line_54_a_recreated_topic_inherits_no_offsets_whatever_became_of_the_tombstones(driver: Driver) -> None:
    commits(driver)
    commits(driver, topic="kept")
    driver.fail_writes = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.topics["t"] = None
    driver.run(drop_topics(driver.group, lambda topic: topic == "t"))
    assert fetched(driver)[0] == -1, "the topic is gone"
    driver.fail_writes = None
    driver.topics["t"] = UUID(int=2)
    for _ in ("here", "after a failover"):
        assert fetched(driver) == (-1, "", 0)
        everything = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        answer = fetch(driver.state, everything, driver.topic_id_of, require_stable=False)
        assert [topic.name for topic in answer.topics] == ["kept"]
        driver.reload()
    commits(driver, 3)
    commits(driver, 4, topic="kept")
    expired(driver)
    assert (fetched(driver)[0], fetched(driver, "kept")[0]) == (3, 4), "what was committed for the new topic stays"


@pytest.mark.invariant("M12")
def test_line_54_what_is_left_of_a_deleted_topic_goes_with_what_has_expired(driver: Driver) -> None:
    (member,) = driver.stable()
    commits(driver, member=member, generation=1)
    driver.topics["t"] = UUID(int=2)
    expired(driver)
    assert driver.log[-1] == OffsetRecord(GROUP, "t", 0, None)
    assert TopicPartition("t", 0) not in driver.group.offsets
    written = len(driver.log)
    driver.run(drop_stale(driver.group, driver.topic_id_of))
    assert len(driver.log) == written


def test_line_54_offsets_without_a_topic_id_belong_to_whoever_has_the_name(driver: Driver) -> None:
    """Those of an earlier release, and of old clients that say themselves when an offset expires."""
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=driver.now.wall_ms)
    driver.run(Step([OffsetRecord(GROUP, "t", 0, value)]))
    commits(driver, 8, topic="expires", retention_ms=WEEK_MS)
    driver.reload()
    expired(driver)
    assert (fetched(driver)[0], fetched(driver, "expires")[0]) == (7, 8)
    driver.topics["t"] = None
    expired(driver)
    driver.topics["t"] = UUID(int=2)
    assert fetched(driver)[0] == -1


def test_line_54_a_transaction_that_commits_for_the_new_topic_is_not_dropped_with_the_old(driver: Driver) -> None:
    commits(driver)
    driver.topics["t"] = new = UUID(int=2)
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=driver.now.wall_ms, topic_id=new)
    driver.state.replay(OffsetRecord(GROUP, "t", 0, value), 50, 7)
    driver.run(drop_stale(driver.group, driver.topic_id_of))
    driver.state.end_transaction(7, True)
    assert fetched(driver)[0] == 5


def deleted(driver: Driver, group: str = GROUP) -> ErrorCode:
    try:
        driver.run(delete_group(driver.state, group, Caller()))
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_line_55_only_empty_groups_are_deleted(driver: Driver) -> None:
    assert deleted(driver) is ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = driver.stable()
    commits(driver, member=member, generation=1)
    assert deleted(driver) is ErrorCode.NON_EMPTY_GROUP
    driver.leave((member, None))
    assert deleted(driver) is ErrorCode.NONE
    assert driver.state.groups == {}
    assert driver.reload().groups == {}


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_line_55_an_unknown_group_is_described_as_dead(driver: Driver, version: int, error: ErrorCode) -> None:
    answer = described(driver.state, "ghost", version)
    assert (answer.group_state, answer.error_code) == ("Dead", error)


def test_line_55_a_stable_group_is_described_with_its_assignments(driver: Driver) -> None:
    (member,) = driver.stable()
    group = described(driver.state, GROUP, 6)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    (shown,) = group.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member, "client", "/127.0.0.1")
    assert (shown.member_metadata, shown.member_assignment) == (subscription("t"), member.encode())
    driver.join_known()
    (rebalancing, _) = described(driver.state, GROUP, 6).members
    assert (rebalancing.member_metadata, rebalancing.member_assignment) == (b"", b"")


def test_line_55_groups_are_listed_by_state_and_type(driver: Driver) -> None:
    driver.stable()
    commits(driver, group="simple")
    names = {group.group_id: (group.protocol_type, group.group_state, group.group_type) for group in listed(
        driver.state, [], []
    )}  # fmt: skip
    assert names == {GROUP: ("consumer", "Stable", "classic"), "simple": ("", "Empty", "classic")}
    assert [group.group_id for group in listed(driver.state, ["stable"], [])] == [GROUP]
    assert [group.group_id for group in listed(driver.state, ["EMPTY"], ["Classic"])] == ["simple"]
    assert listed(driver.state, [], ["consumer"]) == []


def offsets_deleted(driver: Driver, topic: str) -> int:
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        ],
    )
    caller = Caller()
    driver.run(delete_offsets(driver.state, request, caller, driver.topic_id_of))
    code: int = caller.response.topics[0].partitions[0].error_code
    return code


def test_line_55_offsets_of_subscribed_topics_are_not_deleted(driver: Driver) -> None:
    (member,) = driver.stable(protocols=[("range", subscription("t"))])
    commits(driver, member=member, generation=1)
    commits(driver, member=member, generation=1, topic="old")
    assert offsets_deleted(driver, "t") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert offsets_deleted(driver, "unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets_deleted(driver, "old") == ErrorCode.NONE
    assert TopicPartition("old", 0) not in driver.group.offsets
    driver.leave((member, None))
    assert offsets_deleted(driver, "t") == ErrorCode.NONE
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        delete_offsets(driver.state, OffsetDeleteRequest(group_id="?", topics=()), Caller(), driver.topic_id_of)


def test_groups_of_other_types_keep_their_offsets_while_they_have_members(driver: Driver) -> None:
    driver.stable(protocol_type="connect", protocols=[("default", b"")])
    with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
        offsets_deleted(driver, "t")


def test_a_group_without_a_time_of_its_own_expires_by_its_commits(driver: Driver) -> None:
    """Coordinators before Kafka 2.1 did not store when a group became empty."""
    driver.state.replay(
        GroupRecord(GROUP, GroupMetadataValue(
            protocol_type="consumer", generation=3, protocol=None, leader=None, members=()
        )), 0,
    )  # fmt: skip
    commits(driver)
    driver.run(driver.state.loaded(driver.now))
    driver.wait(WEEK_MS)
    expired(driver)
    assert driver.state.groups == {}


# --- offsets in transactions ------------------------------------------------------------------------------------------


def commits_in_transaction(
    driver: Driver,
    offset: int = 20,
    *,
    producer: int = 7,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    topic: str = "t",
    metadata: str | None = None,
) -> ErrorCode:
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=GROUP,
        producer_id=producer,
        producer_epoch=0,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
        ],
    )
    caller = Caller()
    try:
        step = commit_in_transaction(driver.state, request, caller, driver.now, driver.topic_id_of)
    except KafkaError as error:
        return error.code
    for record in step.records:
        driver.state.replay(record, len(driver.log), producer)
        driver.log.append(record)
    for to, response in step.answers:
        to.complete(response)
    return ErrorCode(caller.response.topics[0].partitions[0].error_code)


@pytest.mark.row(137)
@pytest.mark.invariant("T13", "G4")
def test_a_transaction_is_fenced_by_the_generation(driver: Driver) -> None:
    (member,) = driver.stable()
    generation = 1
    assert commits_in_transaction(driver, member=member, generation=generation) == 0
    assert commits_in_transaction(driver, member="nobody", generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        commits_in_transaction(driver, member=member, generation=generation - 1) == ErrorCode.ILLEGAL_GENERATION
    )
    assert commits_in_transaction(driver) == 0, "who names nobody is not fenced"


@pytest.mark.invariant("T13")
def test_a_transaction_for_a_group_that_is_not_there(driver: Driver) -> None:
    assert commits_in_transaction(driver, generation=1, member="m") == ErrorCode.ILLEGAL_GENERATION
    assert commits_in_transaction(driver) == 0
    assert fetched(driver, stable=True)[2] == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_transaction_commits_for_partitions_that_exist_and_small_notes(driver: Driver) -> None:
    assert commits_in_transaction(driver, topic="unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commits_in_transaction(driver, metadata="x" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE


@pytest.mark.invariant("T13")
def test_the_end_of_a_transaction_concerns_its_groups_alone(driver: Driver) -> None:
    commits_in_transaction(driver, 20, producer=7)
    commits_in_transaction(driver, 30, producer=8, topic="u")
    driver.state.end_transaction(9, True)
    driver.state.end_transaction(7, True)
    assert fetched(driver, stable=True) == (20, "", 0)
    assert fetched(driver, "u", stable=True)[2] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    driver.state.end_transaction(7, True)
    driver.state.end_transaction(8, False)
    assert fetched(driver, "u", stable=True) == (-1, "", 0)


@pytest.mark.invariant("T13")
def test_13_pending_offsets_keep_their_group_and_do_not_expire(driver: Driver) -> None:
    """KAFKA-19163: a group that has nothing but offsets in a transaction is not an empty one."""
    commits_in_transaction(driver)
    driver.wait(2 * WEEK_MS)
    expired(driver)
    assert GROUP in driver.state.groups
    driver.state.end_transaction(7, True)
    assert fetched(driver)[0] == 20


@pytest.mark.invariant("T13")
def test_13_a_group_that_is_deleted_takes_its_pending_offsets_along(driver: Driver) -> None:
    commits(driver, 10)
    commits_in_transaction(driver)
    driver.run(delete_group(driver.state, GROUP, Caller()))
    assert GROUP not in driver.state.groups
    driver.state.end_transaction(7, True)
    assert fetched(driver, stable=True) == (-1, "", 0)


@pytest.mark.invariant("T13")
def test_offsets_that_are_deleted_are_so_while_they_are_pending(driver: Driver) -> None:
    commits_in_transaction(driver)
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        ],
    )
    driver.run(delete_offsets(driver.state, request, Caller(), driver.topic_id_of))
    assert fetched(driver, stable=True) == (-1, "", 0)
    driver.state.end_transaction(7, True)
    assert fetched(driver) == (-1, "", 0)
