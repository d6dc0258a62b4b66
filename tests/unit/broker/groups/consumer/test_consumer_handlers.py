"""The consumer protocol over a socket: heartbeat, describe, lists, commits in epochs, options of groups."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from rookery.broker.groups.lag_meter import LagMeter
from rookery.broker.groups.metrics import GroupMetrics
from rookery.core.clock import SystemClock
from rookery.core.errors import ErrorCode
from rookery.core.metadata.features import GROUP_VERSION
from rookery.core.metadata.image import ResourceType
from rookery.core.metadata.records import FeatureLevelRecord
from rookery.core.metrics import Metrics, digest
from rookery.core.wire.apis.consumer_group_describe import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
)
from rookery.core.wire.apis.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
)
from rookery.core.wire.apis.delete_groups import DELETE_GROUPS, DeleteGroupsRequest
from rookery.core.wire.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from rookery.core.wire.apis.describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from rookery.core.wire.apis.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from rookery.core.wire.apis.list_config_resources import LIST_CONFIG_RESOURCES, ListConfigResourcesRequest
from rookery.core.wire.apis.list_groups import LIST_GROUPS, ListGroupsRequest
from rookery.core.wire.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from rookery.core.wire.apis.streams_group_heartbeat import (
    STREAMS_GROUP_HEARTBEAT,
    StreamsGroupHeartbeatRequest,
)
from tests.unit.broker.groups.test_handlers import GROUP, Wire
from tests.unit.broker.groups.test_handlers import wire as connected

E = ErrorCode
MEMBER = "member-1"


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with connected() as wire:
        wire.broker.cluster.commit([FeatureLevelRecord(GROUP_VERSION, 1)])
        yield wire


async def beat(wire: Wire, epoch: int, version: int = 1, **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=MEMBER, member_epoch=epoch, **fields)
    return await wire.ask(CONSUMER_GROUP_HEARTBEAT, version, request)


async def join(wire: Wire, version: int = 1) -> Any:
    return await beat(
        wire, 0, version, rebalance_timeout_ms=6000, subscribed_topic_names=["t"], topic_partitions=[]
    )


async def test_below_its_level_the_protocol_is_refused_with_a_sentence() -> None:
    async with connected() as wire:
        answer = await join(wire)
        assert answer.error_code == E.UNSUPPORTED_VERSION
        assert "kafka-features" in answer.error_message
        request = ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
        described = await wire.ask(CONSUMER_GROUP_DESCRIBE, 1, request)
        assert described.groups[0].error_code == E.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", [0, 1])
async def test_join_describe_list_leave_delete(wire: Wire, version: int) -> None:
    joined = await join(wire, version)
    assert (joined.error_code, joined.member_epoch, joined.member_id) == (0, 1, MEMBER)
    assert len(joined.assignment.topic_partitions) == 1
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP, "none"], include_authorized_operations=True)
    ours, none = (await wire.ask(CONSUMER_GROUP_DESCRIBE, version, request)).groups
    assert (ours.group_state, ours.group_epoch, ours.assignment_epoch) == ("Stable", 1, 1)
    assert ours.assignor_name == "uniform"
    (member,) = ours.members
    assert member.assignment.topic_partitions[0].topic_name == "t"
    assert member.member_type == (1 if version else -1)
    assert ours.authorized_operations > 0
    assert none.error_code == E.GROUP_ID_NOT_FOUND
    for types, count in ((["Consumer"], 1), (["classic"], 0), ([], 1)):
        listed = await wire.ask(LIST_GROUPS, 5, ListGroupsRequest(states_filter=[], types_filter=types))
        assert len(listed.groups) == count
    old = await wire.ask(
        DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=False)
    )
    assert (old.groups[0].group_state, old.groups[0].error_code) == ("Dead", E.GROUP_ID_NOT_FOUND)
    refused = await wire.ask(DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[GROUP]))
    assert refused.results[0].error_code == E.NON_EMPTY_GROUP
    left = await beat(wire, -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    deleted = await wire.ask(DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[GROUP]))
    assert deleted.results[0].error_code == 0
    assert (await beat(wire, 1)).error_code == E.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [(9, 1, E.NONE), (9, 2, E.STALE_MEMBER_EPOCH), (8, 1, E.UNSUPPORTED_VERSION)],
)
async def test_commits_name_the_member_epoch(wire: Wire, version: int, epoch: int, code: ErrorCode) -> None:
    await join(wire)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=None)
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id=MEMBER,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    answer = await wire.ask(OFFSET_COMMIT, version, request)
    assert answer.topics[0].partitions[0].error_code == code


async def test_groups_and_their_rebalances_are_counted(wire: Wire) -> None:
    metrics = Metrics()
    GroupMetrics(wire.broker.groups, cast(LagMeter, None), SystemClock()).publish(metrics)

    def value(name: str, **labels: str) -> float | None:
        return metrics.value(f"kafka_server_group_coordinator_metrics_{name}", labels)

    assert value("group_count", protocol="consumer") == 0
    await join(wire)
    assert (value("group_count", protocol="consumer"), value("group_count", protocol="classic")) == (1, 0)
    assert value("consumer_group_count", state="stable") == 1
    await beat(wire, 1)
    assert value("consumer_group_rebalance_count") == 1
    await beat(wire, -1)
    assert (value("consumer_group_count", state="empty"), value("consumer_group_count", state="stable")) == (1, 0)
    assert value("consumer_group_rebalance_count") == 2


@pytest.mark.attack(57)
async def test_names_of_groups_can_be_kept_out_of_metrics(wire: Wire) -> None:
    shown, hidden = Metrics(), Metrics()
    GroupMetrics(wire.broker.groups, cast(LagMeter, None), SystemClock()).publish(shown)
    GroupMetrics(wire.broker.groups, cast(LagMeter, None), SystemClock(), digest).publish(hidden)
    await join(wire)
    assert shown.value("kafka_consumergroup_members", {"consumergroup": GROUP}) == 1
    assert hidden.value("kafka_consumergroup_members", {"consumergroup": GROUP}) is None
    assert hidden.value("kafka_consumergroup_members", {"consumergroup": digest(GROUP)}) == 1


async def alter(wire: Wire, name: str, value: str) -> int:
    resource = AlterConfigsResource(
        resource_type=ResourceType.GROUP,
        resource_name=GROUP,
        configs=[AlterableConfig(name=name, config_operation=0, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await wire.ask(INCREMENTAL_ALTER_CONFIGS, 1, request)
    code: int = answer.responses[0].error_code
    return code


async def test_a_group_has_options_of_its_own(wire: Wire) -> None:
    assert (await join(wire)).heartbeat_interval_ms == 5_000
    assert await alter(wire, "consumer.heartbeat.interval.ms", "7000") == 0
    assert (await beat(wire, 1)).heartbeat_interval_ms == 7_000
    assert await alter(wire, "consumer.heartbeat.interval.ms", "70000") == E.INVALID_CONFIG
    assert await alter(wire, "consumer.no.such", "1") == E.INVALID_CONFIG
    resource = DescribeConfigsResource(
        resource_type=ResourceType.GROUP, resource_name=GROUP, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=False)
    configs = (await wire.ask(DESCRIBE_CONFIGS, 4, request)).results[0].configs
    assert {each.name: (each.value, each.config_source) for each in configs} == {
        "consumer.session.timeout.ms": ("45000", 5),
        "consumer.heartbeat.interval.ms": ("7000", 8),
        "consumer.assignment.interval.ms": ("1000", 5),
    }
    listed = await wire.ask(
        LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest(resource_types=[ResourceType.GROUP])
    )
    assert [each.resource_name for each in listed.config_resources] == [GROUP]


async def test_streams_groups_are_refused_with_what_to_set(wire: Wire) -> None:
    request = StreamsGroupHeartbeatRequest(
        group_id=GROUP, member_id=MEMBER, member_epoch=0, endpoint_information_epoch=0
    )
    answer = await wire.ask(STREAMS_GROUP_HEARTBEAT, 0, request)
    assert answer.error_code == E.INVALID_REQUEST
    assert "set group.protocol=classic" in answer.error_message
    assert (await wire.ask(LIST_GROUPS, 5, ListGroupsRequest())).groups == []


async def test_the_history_of_a_group_is_logged(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="rookery.broker.groups")
    await join(wire)
    await beat(wire, -1)
    told = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "group.rebalance"]
    of_members = [(fields["what"], fields["member"], fields["why"]) for fields in told if fields["member"]]
    assert of_members == [("joined", MEMBER, "unit"), ("removed", MEMBER, "left")]
    assert {fields["group"] for fields in told} == {GROUP}
    (assigned,) = [fields for fields in told if fields["what"] == "assigned"]
    assert assigned["new"] > 0
