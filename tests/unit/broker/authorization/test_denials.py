"""What attackers and auditors try, as far as ACLs are concerned. Numbers are those of the list of negative tests."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.core.errors import ErrorCode
from rookery.core.metadata.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from rookery.core.metadata.image import AccessControlEntry
from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from rookery.core.net.connection import Connection, ConnectionLostError
from rookery.core.security.principal import KafkaPrincipal
from rookery.core.wire.primitives import NO_UUID
from tests.unit.broker.authorization.scene import (
    ALICE,
    APIS,
    DOOMED,
    GROUP,
    ID,
    STREAMING,
    TOPIC,
    Caller,
    Scene,
    acl,
    bare,
    build,
    codes,
    connected,
    full,
)
from tests.unit.broker.talk import batch_of

E = ErrorCode
BOB = KafkaPrincipal("User", "bob")
NOT_ASKED = -(2**31)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with bare() as scene:
        yield scene


@pytest.fixture
async def busy() -> AsyncIterator[Scene]:
    async with full() as scene:
        yield scene


async def reads(scene: Scene, topic: str = TOPIC) -> int:
    """What ListOffsets answers to alice, who needs DESCRIBE."""
    partition = {"partition_index": 0, "timestamp": -1}
    answer = await scene.alice.ask("ListOffsets", 8, topics=[{"name": topic, "partitions": [partition]}])
    return int(answer.topics[0].partitions[0].error_code)


def pattern(name: str, type: PatternType, *, deny: bool = False) -> AccessControlEntry:
    permission = AclPermission.DENY if deny else AclPermission.ALLOW
    return AccessControlEntry(
        AclResourceType.TOPIC, name, type, str(ALICE), "*", AclOperation.DESCRIBE, permission
    )


@pytest.mark.parametrize("denied", [TOPIC, "ord*", "*"])
@pytest.mark.parametrize("allowed", [TOPIC, "ord*", "*"])
@pytest.mark.attack(38)
async def test_38_to_deny_is_stronger_than_to_allow(scene: Scene, allowed: str, denied: str) -> None:
    scene.set([acl(f"DESCRIBE T {allowed}")])
    assert await reads(scene) == E.NONE
    scene.set([acl(f"DESCRIBE T {allowed}"), acl(f"DESCRIBE T {denied}", deny=True)])
    assert await reads(scene) == E.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.attack(39)
async def test_39_a_literal_name_is_no_prefix(scene: Scene) -> None:
    scene.set([pattern("ord", PatternType.LITERAL)])
    assert await reads(scene) == E.TOPIC_AUTHORIZATION_FAILED
    scene.set([pattern("ord", PatternType.PREFIXED)])
    assert await reads(scene) == E.NONE
    scene.set([pattern("*", PatternType.PREFIXED)])
    assert await reads(scene) == E.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("host", ["10.0.0.1", "::ffff:10.0.0.1", "::ffff:a00:1", "0:0:0:0:0:ffff:a00:1"])
@pytest.mark.attack(40)
async def test_40_a_denied_host_is_denied_in_every_form(scene: Scene, host: str) -> None:
    for written in ("10.0.0.1", "::ffff:10.0.0.1"):
        scene.set([acl("READ T *"), acl("READ T *", deny=True, host=written)])
        assert not scene.guard.access(ALICE, host).topic(AclOperation.READ, TOPIC)
        assert scene.guard.access(ALICE, "10.0.0.2").topic(AclOperation.READ, TOPIC)


@pytest.mark.attack(41)
async def test_41_a_topic_id_does_not_buy_the_name(scene: Scene) -> None:
    scene.allow()
    asked = {"topics": [{"topic_id": scene.topic_id, "name": None}]}
    (topic,) = (await scene.alice.ask("Metadata", 12, **asked)).topics
    denied: tuple[Any, ...] = (E.TOPIC_AUTHORIZATION_FAILED, None, scene.topic_id, [])
    assert (topic.error_code, topic.name, topic.topic_id, list(topic.partitions)) == denied
    (topic,) = (await scene.alice.ask("DeleteTopics", 6, timeout_ms=1000, **asked)).responses
    assert (topic.error_code, topic.name, topic.topic_id) == denied[:3]
    assert TOPIC not in topic.error_message
    scene.allow(f"DESCRIBE T {TOPIC}")
    (topic,) = (await scene.alice.ask("DeleteTopics", 6, timeout_ms=1000, **asked)).responses
    assert (topic.error_code, topic.name) == (E.TOPIC_AUTHORIZATION_FAILED, TOPIC)
    scene.allow(f"DELETE T {TOPIC}")
    (topic,) = (await scene.alice.ask("DeleteTopics", 6, timeout_ms=1000, **asked)).responses
    assert (topic.error_code, topic.name) == (E.NONE, TOPIC)


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.attack(41)
async def test_41_what_holds_for_a_topic_without_a_name_does_not_hold_for_one_that_is_named_by_its_id(
    scene: Scene, everyone: bool
) -> None:
    await _with_record(scene)
    scene.guard.authorizer = replace(scene.guard.authorizer, allow_everyone=everyone)
    scene.set([acl(f"READ T {TOPIC}", str(BOB))] if everyone else [acl("READ T *"), acl(f"READ T {TOPIC}", deny=True)])
    await scene.alice.ask("Metadata", 12, topics=[{"name": ""}])
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    for epoch in (-1, 0):  # without a session and with one
        wanted = {"session_epoch": epoch, "topics": [{"topic_id": scene.topic_id, "partitions": [partition]}]}
        answer = await scene.alice.ask("Fetch", 13, max_bytes=1 << 20, **wanted)
        (told,) = answer.responses[0].partitions
        assert told.error_code == E.TOPIC_AUTHORIZATION_FAILED
        assert b"secret" not in bytes(told.records or b"")


def _about(topic: str) -> list[tuple[str, int, dict[str, Any]]]:
    place = {"name": topic, "partitions": [{"partition_index": 0}]}
    return [
        ("Metadata", 12, {"topics": [{"name": topic}], "allow_auto_topic_creation": True}),
        ("DescribeTopicPartitions", 0, {"topics": [{"name": topic}]}),
        ("ListOffsets", 8, {"topics": [place]}),
        ("Produce", 11, {"acks": 1, "topic_data": [{"name": topic, "partition_data": [{"records": batch_of(b"v")}]}]}),
        ("Fetch", 12, {"max_bytes": 1, "topics": [{"topic": topic, "partitions": [{"partition_max_bytes": 1}]}]}),
        ("OffsetForLeaderEpoch", 4, {"topics": [{"topic": topic, "partitions": [{"partition": 0}]}]}),
        ("DeleteTopics", 5, {"topic_names": [topic], "timeout_ms": 1000}),
        ("DeleteTopics", 6, {"topics": [{"name": topic}], "timeout_ms": 1000}),
        ("CreateTopics", 7, {"topics": [{"name": topic, "num_partitions": 1, "replication_factor": 1}]}),
        ("CreatePartitions", 3, {"topics": [{"name": topic, "count": 9}], "timeout_ms": 1000}),
        ("DeleteRecords", 2, {"topics": [place], "timeout_ms": 1000}),
        ("DescribeProducers", 0, {"topics": [{"name": topic, "partition_indexes": [0]}]}),
        ("DescribeConfigs", 4, {"resources": [{"resource_type": 2, "resource_name": topic}]}),
        ("IncrementalAlterConfigs", 1, {"resources": [{"resource_type": 2, "resource_name": topic}]}),
    ]


@pytest.mark.attack(42)
async def test_42_a_hidden_topic_is_answered_like_an_absent_one(scene: Scene) -> None:
    scene.allow()
    absent = "absent"
    assert len(absent) == len(TOPIC)
    for (name, version, hidden), (_, _, missing) in zip(_about(TOPIC), _about(absent), strict=True):
        api = APIS[name]
        told = [
            b"".join(map(bytes, api.encode_response(version, await scene.alice.ask(name, version, **asked))))
            for asked in (hidden, missing)
        ]
        assert told[0].replace(TOPIC.encode(), absent.encode()) == told[1], name


@pytest.mark.attack(42)
async def test_42_the_order_of_answers_reveals_nothing_either(scene: Scene) -> None:
    scene.allow("DELETE T absent")
    names = ["zz", TOPIC, "absent", "aa"]
    answer = await scene.alice.ask("DeleteTopics", 5, topic_names=names, timeout_ms=1000)
    assert [each.name for each in answer.responses] == names
    assert [each.error_code for each in answer.responses] == [29, 29, E.UNKNOWN_TOPIC_OR_PARTITION, 29]


async def test_a_topic_id_that_this_broker_does_not_know_yet_is_not_handed_to_the_controller(scene: Scene) -> None:
    """The controller knows more than a broker that is behind, and asks nobody for rights."""
    asked: list[Any] = []
    ask = scene.broker.cluster.ask

    async def noting(request: Any, *rest: Any, **more: Any) -> Any:
        asked.extend(request.topics)
        return await ask(request, *rest, **more)

    scene.broker.cluster.ask = noting  # type: ignore[method-assign]
    scene.allow(f"DELETE T {TOPIC}")
    wanted = {"timeout_ms": 1000, "topics": [{"topic_id": UUID(int=7), "name": None}]}
    (topic,) = (await scene.alice.ask("DeleteTopics", 6, **wanted)).responses
    assert (topic.error_code, topic.name, topic.topic_id) == (E.UNKNOWN_TOPIC_ID, None, UUID(int=7))
    assert asked == []
    scene.allow("DELETE C")
    (topic,) = (await scene.alice.ask("DeleteTopics", 6, **wanted)).responses
    assert topic.error_code == E.UNKNOWN_TOPIC_ID
    assert [each.topic_id for each in asked] == [UUID(int=7)]


async def test_a_right_on_the_cluster_deletes_but_does_not_reveal_what_is_there(scene: Scene) -> None:
    scene.allow("DELETE C")
    answer = await scene.alice.ask("DeleteTopics", 5, topic_names=["absent", DOOMED], timeout_ms=1000)
    assert [each.error_code for each in answer.responses] == [E.TOPIC_AUTHORIZATION_FAILED, E.NONE]


def _fetch(session: int = 0, epoch: int = 0, *topics: str) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    asked = [{"topic": topic, "partitions": [partition]} for topic in topics]
    return {"max_bytes": 1 << 20, "session_id": session, "session_epoch": epoch, "topics": asked}


async def _with_record(scene: Scene) -> None:
    batch = batch_of(b"secret")
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
    assert codes(await scene.admin.ask("Produce", 11, acks=1, timeout_ms=1000, topic_data=[data])) == set()


def _told(answer: Any) -> dict[str, int]:
    return {topic.topic: each.error_code for topic in answer.responses for each in topic.partitions}


@pytest.mark.attack(43)
async def test_43_a_right_that_is_taken_away_ends_with_the_next_fetch_of_the_session(scene: Scene) -> None:
    await _with_record(scene)
    scene.allow(f"READ T {TOPIC}", f"READ T {DOOMED}")
    begun = await scene.alice.ask("Fetch", 12, **_fetch(0, 0, TOPIC, DOOMED))
    assert _told(begun) == {TOPIC: 0, DOOMED: 0}
    again = await scene.alice.ask("Fetch", 12, **_fetch(begun.session_id, 1))
    assert _told(again) == {TOPIC: 0}
    scene.allow(f"READ T {DOOMED}")
    last = await scene.alice.ask("Fetch", 12, **_fetch(begun.session_id, 2))
    assert _told(last) == {TOPIC: E.TOPIC_AUTHORIZATION_FAILED}
    assert b"secret" not in bytes(last.responses[0].partitions[0].records or b"")
    scene.allow(f"READ T {TOPIC}", f"READ T {DOOMED}")
    back = await scene.alice.ask("Fetch", 12, **_fetch(begun.session_id, 3))
    assert _told(back) == {TOPIC: 0}


@pytest.mark.attack(43)
async def test_43_a_quiet_partition_is_asked_for_again_too(scene: Scene) -> None:
    scene.allow(f"READ T {TOPIC}")
    begun = await scene.alice.ask("Fetch", 12, **_fetch(0, 0, TOPIC))
    assert _told(await scene.alice.ask("Fetch", 12, **_fetch(begun.session_id, 1))) == {}
    scene.allow()
    last = await scene.alice.ask("Fetch", 12, **_fetch(begun.session_id, 2))
    assert _told(last) == {TOPIC: E.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.attack(44)
async def test_44_the_session_of_another_does_not_exist_and_is_not_disturbed(scene: Scene) -> None:
    await _with_record(scene)
    begun = await scene.admin.ask("Fetch", 12, **_fetch(0, 0, TOPIC, DOOMED))
    assert begun.session_id
    scene.allow(f"READ T {TOPIC}", f"READ T {DOOMED}")
    stolen = await scene.alice.ask("Fetch", 12, **_fetch(begun.session_id, 1))
    assert (codes(stolen), list(stolen.responses)) == ({E.FETCH_SESSION_ID_NOT_FOUND}, [])
    for epoch in (-1, 0):  # both end a session of one's own
        assert codes(await scene.alice.ask("Fetch", 12, **_fetch(begun.session_id, epoch))) == set()
    assert _told(await scene.admin.ask("Fetch", 12, **_fetch(begun.session_id, 1))) == {TOPIC: 0}


@pytest.mark.parametrize("version", [12, 15])
@pytest.mark.attack(45)
async def test_45_a_consumer_that_claims_to_be_a_replica_moves_nothing(scene: Scene, version: int) -> None:
    """CVE-2018-1288."""
    await _with_record(scene)
    log = scene.broker.partition(TOPIC).log
    before = log.high_watermark
    scene.allow(f"ALL T {TOPIC}")
    asked = _fetch(0, 0, TOPIC)
    asked["topics"][0]["partitions"][0]["fetch_offset"] = 1000
    if version >= 13:
        asked["topics"][0]["topic_id"] = scene.topic_id
        asked["replica_state"] = {"replica_id": 1, "replica_epoch": -1}
    else:
        asked["replica_id"] = 1
    answer = await scene.alice.ask("Fetch", version, **asked)
    assert codes(answer) == {E.TOPIC_AUTHORIZATION_FAILED}
    assert log.high_watermark == before
    assert answer.session_id == 0
    asked.update(session_id=77, session_epoch=1)
    assert (await scene.alice.ask("Fetch", version, **asked)).error_code == E.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.attack(47)
async def test_47_a_transactional_batch_needs_a_transactional_id(busy: Scene) -> None:
    """CVE-2018-17196: what counts is the batch."""
    busy.allow(f"ALL T {TOPIC}")
    batch = batch_of(b"v", producer_id=busy.producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    data = {"name": TOPIC, "partition_data": [{"index": 1, "records": batch}]}
    for id in (None, ID, "other"):
        answer = await busy.alice.ask(
            "Produce", 11, acks=1, timeout_ms=1000, transactional_id=id, topic_data=[data]
        )
        assert codes(answer) == {E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert busy.broker.partition(TOPIC, 1).log.end_offset == 0


async def test_acks_0_that_is_denied_closes_the_connection(scene: Scene) -> None:
    scene.allow()
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch_of(b"v")}]}
    with pytest.raises(ConnectionLostError):
        await scene.alice.ask("Produce", 11, acks=0, timeout_ms=1000, topic_data=[data])
    assert scene.broker.partition(TOPIC).log.end_offset == 0


@pytest.mark.attack(48)
async def test_48_a_commit_is_taken_for_the_topics_that_may_be_read(busy: Scene) -> None:
    await busy.broker.cluster.ask(CreateTopicsRequest((NewTopic("mine", 1, 1),)))
    busy.allow(f"READ G {GROUP}", "READ T mine")
    topics = [{"name": name, "partitions": [{"partition_index": 0, "committed_offset": 7}]} for name in (TOPIC, "mine")]
    asked = {"group_id": GROUP, "generation_id_or_member_epoch": -1, "topics": topics}
    answer = await busy.alice.ask("OffsetCommit", 9, **asked)
    told = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert told == {TOPIC: E.TOPIC_AUTHORIZATION_FAILED, "mine": E.NONE}
    found = await busy.admin.ask("OffsetFetch", 8, groups=[{"group_id": GROUP, "topics": None}])
    offsets = {topic.name: topic.partitions[0].committed_offset for topic in found.groups[0].topics}
    assert offsets == {TOPIC: 1, "mine": 7}
    seen = await busy.alice.ask("OffsetFetch", 8, groups=[{"group_id": GROUP, "topics": None}])
    assert [topic.name for topic in seen.groups[0].topics] == ["mine"]


@pytest.mark.attack(49)
async def test_49_lists_hold_ones_own_only(busy: Scene) -> None:
    busy.allow(f"DESCRIBE G {STREAMING}", "DESCRIBE X other")
    groups = (await busy.alice.ask("ListGroups", 5)).groups
    assert [group.group_id for group in groups] == [STREAMING]
    assert (await busy.alice.ask("ListTransactions", 1)).transaction_states == []
    everything = (await busy.admin.ask("ListGroups", 5)).groups
    assert {group.group_id for group in everything} == {GROUP, STREAMING}


@pytest.mark.attack(50)
async def test_50_no_client_id_opens_internal_topics(busy: Scene) -> None:
    busy.allow("ALL T *")
    known = set(busy.broker.server.connections)
    connection = await Connection.open("127.0.0.1", busy.broker.port, client_id="__admin_client")
    (fresh,) = set(busy.broker.server.connections) - known
    fresh.client.identify(ALICE)
    data = {"name": "__consumer_offsets", "partition_data": [{"index": 0, "records": batch_of(b"v")}]}
    answer = await Caller(connection).ask("Produce", 11, acks=1, timeout_ms=1000, topic_data=[data])
    connection.close()
    assert codes(answer) == {E.INVALID_TOPIC_EXCEPTION}


async def _producer_id(scene: Scene) -> int:
    answer = await scene.alice.ask("InitProducerId", 3, transactional_id=None, transaction_timeout_ms=1000)
    return int(answer.error_code)


@pytest.mark.attack(51)
async def test_51_rights_that_cancel_out_make_no_idempotent_producer(scene: Scene) -> None:
    for allowed, denied in ((TOPIC, TOPIC), (TOPIC, "ord*"), ("orders*", "ord*"), ("*", "*"), (TOPIC, "*")):
        scene.set([acl(f"WRITE T {allowed}"), acl(f"WRITE T {denied}", deny=True)])
        assert await _producer_id(scene) == E.CLUSTER_AUTHORIZATION_FAILED, (allowed, denied)
    for allowed, denied in ((TOPIC, "orders2"), ("ord*", TOPIC), ("*", TOPIC), ("ord*", "orders*")):
        scene.set([acl(f"WRITE T {allowed}"), acl(f"WRITE T {denied}", deny=True)])
        assert await _producer_id(scene) == E.NONE, (allowed, denied)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../x", "a\0b", "x" * 250, "", "*"])
@pytest.mark.parametrize("rights", [(), ("ALL T *", "CREATE C")], ids=["denied", "allowed"])
@pytest.mark.attack(52)
async def test_52_bad_names_never_become_paths(scene: Scene, name: str, rights: tuple[str, ...]) -> None:
    scene.allow(*rights)
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    answer = await scene.alice.ask("CreateTopics", 7, topics=[topic], timeout_ms=1000)
    assert codes(answer) == {E.INVALID_TOPIC_EXCEPTION if rights or not name else E.TOPIC_AUTHORIZATION_FAILED}
    answer = await scene.alice.ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=True)
    assert codes(answer) == {E.INVALID_TOPIC_EXCEPTION if rights else E.TOPIC_AUTHORIZATION_FAILED}
    assert name not in scene.broker.cluster.image.topic_ids


def _creation(principal: str = str(ALICE), **fields: Any) -> dict[str, Any]:
    made = {"resource_type": 2, "resource_name": TOPIC, "resource_pattern_type": 3, "host": "*", "operation": 8}
    return {**made, "principal": principal, "permission_type": 3, **fields}


@pytest.mark.attack(53)
async def test_53_a_principal_has_a_type_and_its_case_counts(scene: Scene) -> None:
    answer = await scene.admin.ask("CreateAcls", 3, creations=[_creation("alice"), _creation("user:alice")])
    assert [each.error_code for each in answer.results] == [E.INVALID_REQUEST, E.NONE]
    assert await reads(scene) == E.TOPIC_AUTHORIZATION_FAILED


# --- ACLs by their own APIs -----------------------------------------------------------------------------------


async def test_acls_hold_for_open_connections_when_they_are_made_and_removed(scene: Scene) -> None:
    assert await reads(scene) == E.TOPIC_AUTHORIZATION_FAILED
    made = await scene.admin.ask("CreateAcls", 3, creations=[_creation()])
    assert codes(made) == set()
    assert scene.guard.acls == 1
    assert await reads(scene) == E.NONE
    wanted = {"resource_type_filter": 2, "resource_name_filter": TOPIC, "pattern_type_filter": 2, "operation": 1}
    removed = await scene.admin.ask("DeleteAcls", 3, filters=[{**wanted, "permission_type": 1}])
    assert [each.principal for each in removed.filter_results[0].matching_acls] == [str(ALICE)]
    assert await reads(scene) == E.TOPIC_AUTHORIZATION_FAILED


async def test_one_acl_for_somebody_shuts_out_the_others_even_where_everybody_is_allowed(scene: Scene) -> None:
    scene.guard.authorizer = replace(scene.guard.authorizer, allow_everyone=True)
    assert await reads(scene) == E.NONE
    await scene.admin.ask("CreateAcls", 3, creations=[_creation(str(BOB))])
    assert await reads(scene) == E.TOPIC_AUTHORIZATION_FAILED
    assert await reads(scene, DOOMED) == E.NONE


# --- what one may do, as bits ---------------------------------------------------------------------------------


async def test_operations_that_are_allowed_are_reported_when_asked_for(busy: Scene) -> None:
    busy.allow(f"READ T {TOPIC}", f"DELETE G {GROUP}", f"READ G {STREAMING}")
    asked = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
    answer = await busy.alice.ask("Metadata", 12, **asked)
    assert answer.topics[0].topic_authorized_operations == NOT_ASKED
    answer = await busy.alice.ask("Metadata", 12, **asked, include_topic_authorized_operations=True)
    assert answer.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8
    answer = await busy.admin.ask("Metadata", 12, **asked, include_topic_authorized_operations=True)
    assert answer.topics[0].topic_authorized_operations == 3576
    answer = await busy.alice.ask("DescribeTopicPartitions", 0, topics=[{"name": TOPIC}])
    assert answer.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8
    answer = await busy.alice.ask("DescribeGroups", 5, groups=[GROUP], include_authorized_operations=True)
    assert answer.groups[0].authorized_operations == 1 << 6 | 1 << 8
    answer = await busy.alice.ask(
        "ConsumerGroupDescribe", 1, group_ids=[STREAMING], include_authorized_operations=True
    )
    assert answer.groups[0].authorized_operations == 1 << 3 | 1 << 8


@pytest.mark.parametrize(("api", "version"), [("DescribeCluster", 1), ("Metadata", 10)])
async def test_the_clusters_bits_need_describe_on_the_cluster(scene: Scene, api: str, version: int) -> None:
    fields: dict[str, Any] = {"include_cluster_authorized_operations": True}
    if api == "Metadata":
        fields["topics"] = []
    else:
        fields["endpoint_type"] = 1
    scene.allow("CREATE C")
    answer = await scene.alice.ask(api, version, **fields)
    assert answer.cluster_authorized_operations == 0
    assert len(answer.brokers) == 1
    scene.allow("CREATE C", "DESCRIBE C")
    answer = await scene.alice.ask(api, version, **fields)
    assert answer.cluster_authorized_operations == 1 << 5 | 1 << 8
    answer = await scene.admin.ask(api, version, **fields)
    assert answer.cluster_authorized_operations == 8096


async def test_a_topic_is_created_without_telling_its_options_to_who_may_not_see_them(scene: Scene) -> None:
    scene.allow("CREATE T fresh")
    topic = {"name": "fresh", "num_partitions": 2, "replication_factor": 1}
    (made,) = (await scene.alice.ask("CreateTopics", 7, topics=[topic], timeout_ms=5000)).topics
    assert (made.error_code, made.topic_config_error_code) == (E.NONE, E.TOPIC_AUTHORIZATION_FAILED)
    assert (made.num_partitions, made.replication_factor, list(made.configs)) == (-1, -1, [])
    assert made.topic_id == scene.broker.cluster.image.topic_ids["fresh"] != NO_UUID


async def test_a_transaction_is_described_without_the_topics_one_may_not_see(busy: Scene) -> None:
    busy.allow(f"DESCRIBE X {ID}")
    (state,) = (await busy.alice.ask("DescribeTransactions", 0, transactional_ids=[ID])).transaction_states
    assert (state.error_code, state.topics) == (E.NONE, [])


async def test_regular_expressions_match_what_the_member_may_see(busy: Scene) -> None:
    async def assigned(epoch: int) -> tuple[int, set[Any]]:
        joining = {"rebalance_timeout_ms": 6000, "topic_partitions": [], "subscribed_topic_regex": ".*"}
        beat = {"group_id": "fresh", "member_id": "m", "member_epoch": epoch, **(joining if not epoch else {})}
        answer = await busy.alice.ask("ConsumerGroupHeartbeat", 1, **beat)
        assert codes(answer) == set()
        found = answer.assignment.topic_partitions if answer.assignment is not None else ()
        return answer.member_epoch, {each.topic_id for each in found}

    busy.allow("READ G fresh", f"DESCRIBE T {DOOMED}")
    epoch, topics = await assigned(0)
    assert epoch > 0
    assert topics == {busy.broker.cluster.image.topic_ids[DOOMED]}
    await busy.admin.ask("CreateAcls", 3, creations=[_creation()])
    group = busy.broker.groups.shard_of("fresh").groups.groups["fresh"]
    assert isinstance(group, ConsumerGroup)
    assert group._stale


async def test_denials_are_handed_to_the_log_with_the_api(scene: Scene) -> None:
    scene.allow()
    await reads(scene)
    [denial] = scene.denials
    assert (denial.principal, denial.host, denial.api) == (str(ALICE), "127.0.0.1", "ListOffsets")
    assert (denial.operation, denial.name) == (AclOperation.DESCRIBE, TOPIC)
    await scene.alice.ask("Metadata", 12, topics=None)
    await scene.alice.ask("ListGroups", 4)
    assert len(scene.denials) == 1, "what is left out of lists is no denial"


@pytest.mark.attack(63)
async def test_63_quotas_are_for_users_whatever_their_client_ids(scene: Scene) -> None:
    scene.allow("ALL T *")
    bob = await connected(scene.broker, BOB)
    entry = {
        "entity": [{"entity_type": "user", "entity_name": "alice"}],
        "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
    }
    assert codes(await scene.admin.ask("AlterClientQuotas", 1, entries=[entry], validate_only=False)) == set()
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch_of(b"v" * 1000)}]}
    request = build(APIS["Produce"].request, {"acks": 1, "timeout_ms": 1000, "topic_data": [data]})
    answer = await scene.alice.connection.request(APIS["Produce"], 11, request, 20)
    assert answer.throttle_time_ms > 0
    scene.set([acl("ALL T *", str(BOB))])
    answer = await bob.connection.request(APIS["Produce"], 11, request, 20)
    assert (codes(answer), answer.throttle_time_ms) == (set(), 0)
    bob.connection.close()
