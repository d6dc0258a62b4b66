"""Groups as administrators see them."""

from collections.abc import Collection, Iterable

from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.broker.groups.consumer.member import NOTHING, TopicIdPartition, by_topic
from rookery.broker.groups.group import Group
from rookery.broker.groups.group_state import GroupState
from rookery.broker.groups.members import Member
from rookery.broker.groups.state import GroupsState
from rookery.core.errors import ErrorCode, GroupIdNotFoundError
from rookery.core.wire.apis import consumer_group_describe as wire
from rookery.core.wire.apis.describe_groups import DescribedGroup, DescribedGroupMember
from rookery.core.wire.apis.list_groups import ListedGroup

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
NOT_FOUND_FROM = 6
"""From this version on DescribeGroups answers GROUP_ID_NOT_FOUND for an unknown group; before, it is a dead one."""


def listed(state: GroupsState, states: Collection[str], kinds: Collection[str]) -> list[ListedGroup]:
    """ListGroups: empty filters let everything pass; they do not mind upper and lower case."""
    wanted_states = {each.lower() for each in states}
    wanted_kinds = {each.lower() for each in kinds}
    return [
        ListedGroup(
            group_id=group.id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=group.kind,
        )
        for group in state.groups.values()
        if (not wanted_states or group.state.value.lower() in wanted_states)
        and (not wanted_kinds or group.kind in wanted_kinds)
    ]


def described(state: GroupsState, group_id: str, version: int) -> DescribedGroup:
    """DescribeGroups: metadata and assignments are shown while they are valid, in a stable group."""
    group = state.groups.get(group_id)
    if not isinstance(group, Group):
        return not_found(group_id, version)
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[_member(group, member, stable) for member in group.members],
    )


def not_found(group_id: str, version: int) -> DescribedGroup:
    as_error = version >= NOT_FOUND_FROM
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if as_error else ErrorCode.NONE,
        error_message=f"Group {group_id} not found." if as_error else None,
        group_id=group_id,
        group_state=GroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=(),
    )


def _member(group: Group, member: Member, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol) if stable else b"",
        member_assignment=member.assignment if stable else b"",
    )


def described_consumer(state: GroupsState, group_id: str) -> wire.DescribedGroup:
    """ConsumerGroupDescribe. Raises where there is no such group of the consumer protocol."""
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        why = "not found" if group is None else "is not a consumer group"
        raise GroupIdNotFoundError(f"Group {group_id} {why}.")
    stored = group.stored
    return wire.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=stored.epoch,
        assignment_epoch=stored.assignment_epoch,
        assignor_name=group.assignor,
        members=[
            wire.Member(
                member_id=member.id,
                instance_id=member.instance_id,
                rack_id=member.about.rack_id,
                member_epoch=member.current.epoch,
                client_id=member.about.client_id,
                client_host=member.about.client_host,
                subscribed_topic_names=member.about.subscribed_topic_names,
                subscribed_topic_regex=member.about.subscribed_topic_regex,
                assignment=_places(group, {*member.current.assigned, *member.current.pending}),
                target_assignment=_places(group, stored.targets.get(member.id, NOTHING)),
                member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
            )
            for member in stored.members.values()
        ],
    )


def _places(group: ConsumerGroup, places: Iterable[TopicIdPartition]) -> wire.Assignment:
    """Topics that are gone have no name and are left out."""
    return wire.Assignment(
        topic_partitions=[
            wire.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            for topic_id, indexes in by_topic(places).items()
            if (name := group.topics.name_of(topic_id)) is not None
        ]
    )
