"""Groups of consumers and their offsets."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct as Layout
from struct import error as LayoutError

from rookery.client.admin.calls import Calls
from rookery.client.admin.topics import by_topic
from rookery.client.admin.types import GroupDescription, GroupListing, MemberDescription
from rookery.client.types import OffsetAndMetadata, TopicPartition
from rookery.core.errors import GroupIdNotFoundError, UnsupportedVersionError
from rookery.core.net.cluster import CoordinatorKind, Node, check
from rookery.core.wire.apis.consumer_group_describe import (
    CONSUMER_GROUP_DESCRIBE,
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from rookery.core.wire.apis.delete_groups import DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse
from rookery.core.wire.apis.describe_groups import (
    DESCRIBE_GROUPS,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from rookery.core.wire.apis.leave_group import (
    LEAVE_GROUP,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from rookery.core.wire.apis.list_groups import LIST_GROUPS, ListGroupsRequest
from rookery.core.wire.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from rookery.core.wire.apis.offset_delete import (
    OFFSET_DELETE,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from rookery.core.wire.apis.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

NAMES_VERSION_MAX = 9
"""The last version of offset requests with topic names."""
CLASSIC, CONSUMER = "classic", "consumer"
DEAD = "Dead"
_SHORT, _INT = Layout(">h"), Layout(">i")


class GroupCalls(Calls):
    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), brokers: Iterable[int] | None = None
    ) -> list[GroupListing]:
        """Groups by name: of all coordinators, or of these alone."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        found: dict[str, GroupListing] = {}
        for answer in await self._ask_all(LIST_GROUPS, request, brokers):
            for each in answer.groups:
                found[each.group_id] = GroupListing(
                    each.group_id, each.group_state, each.group_type or CLASSIC, each.protocol_type
                )
        return [found[name] for name in sorted(found)]

    async def describe_group(self, group_id: str) -> GroupDescription:
        """A group with its members. Raises GroupIdNotFoundError."""

        def read(answer: ConsumerGroupDescribeResponse, node: Node) -> GroupDescription:
            (group,) = answer.groups
            check(group.error_code, f"group {group_id!r}", group.error_message)
            members = [
                MemberDescription(
                    each.member_id,
                    each.client_id,
                    each.client_host,
                    each.instance_id,
                    _places(each.assignment),
                    _places(each.target_assignment),
                    each.member_epoch,
                )
                for each in group.members
            ]
            return GroupDescription(
                group_id,
                group.group_state,
                CONSUMER,
                group.assignor_name,
                node.id,
                members,
                group.group_epoch,
            )

        request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
        try:
            return await self._ask_coordinator(
                CoordinatorKind.GROUP, group_id, CONSUMER_GROUP_DESCRIBE, request, read
            )
        except (GroupIdNotFoundError, UnsupportedVersionError):
            return await self._describe_classic(group_id)

    async def _describe_classic(self, group_id: str) -> GroupDescription:
        def read(answer: DescribeGroupsResponse, node: Node) -> GroupDescription:
            (group,) = answer.groups
            check(group.error_code, f"group {group_id!r}", group.error_message)
            if group.group_state == DEAD:
                raise GroupIdNotFoundError(f"group {group_id!r}")
            members = [
                MemberDescription(
                    each.member_id,
                    each.client_id,
                    each.client_host,
                    each.group_instance_id,
                    read_assignment(bytes(each.member_assignment)),
                )
                for each in group.members
            ]
            return GroupDescription(
                group_id, group.group_state, CLASSIC, group.protocol_data, node.id, members
            )

        request = DescribeGroupsRequest(groups=[group_id])
        return await self._ask_coordinator(CoordinatorKind.GROUP, group_id, DESCRIBE_GROUPS, request, read)

    async def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""

        def read(answer: DeleteGroupsResponse, node: Node) -> None:
            for each in answer.results:
                check(each.error_code, f"group {group_id!r}")

        request = DeleteGroupsRequest(groups_names=[group_id])
        await self._ask_coordinator(CoordinatorKind.GROUP, group_id, DELETE_GROUPS, request, read)

    async def remove_members(self, group_id: str, instances: Iterable[str]) -> None:
        """Take static members out of a group, by their group.instance.id."""
        members = [
            MemberIdentity(member_id="", group_instance_id=name, reason="removed by admin")
            for name in instances
        ]

        def read(answer: LeaveGroupResponse, node: Node) -> None:
            for each in answer.members:
                check(each.error_code, f"member {each.group_instance_id!r} of group {group_id!r}")

        request = LeaveGroupRequest(group_id=group_id, members=members)
        await self._ask_coordinator(CoordinatorKind.GROUP, group_id, LEAVE_GROUP, request, read)

    async def list_group_offsets(
        self, group_id: str, places: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group; partitions without one are left out."""
        wanted = None if places is None else by_topic(places)
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=_old_topics(wanted),
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=_new_topics(wanted))],
            require_stable=require_stable,
        )

        def read(answer: OffsetFetchResponse, node: Node) -> dict[TopicPartition, OffsetAndMetadata]:
            found: dict[TopicPartition, OffsetAndMetadata] = {}
            for group in answer.groups:
                check(group.error_code, f"group {group_id!r}")
            new = [topic for group in answer.groups for topic in group.topics]
            topics: list[OffsetFetchResponseTopic | OffsetFetchResponseTopics] = [*answer.topics, *new]
            for topic in topics:
                for each in topic.partitions:
                    check(each.error_code, f"offset of {topic.name}-{each.partition_index}")
                    if each.committed_offset >= 0:
                        place = TopicPartition(topic.name, each.partition_index)
                        found[place] = OffsetAndMetadata(
                            each.committed_offset, each.metadata or "", each.committed_leader_epoch
                        )
            return found

        return await self._ask_coordinator(
            CoordinatorKind.GROUP, group_id, OFFSET_FETCH, request, read, at_most=NAMES_VERSION_MAX
        )

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Set the offsets of a group without members."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for (topic, partition), value in offsets.items():
            offset = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
            topics[topic].append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=group_id,
            member_id="",
            topics=[OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )

        def read(answer: OffsetCommitResponse, node: Node) -> None:
            for topic in answer.topics:
                for each in topic.partitions:
                    check(
                        each.error_code,
                        f"offset of {topic.name}-{each.partition_index} for group {group_id!r}",
                    )

        await self._ask_coordinator(
            CoordinatorKind.GROUP, group_id, OFFSET_COMMIT, request, read, at_most=NAMES_VERSION_MAX
        )

    async def delete_group_offsets(self, group_id: str, places: Iterable[TopicPartition]) -> None:
        """Forget offsets of topics that no member subscribes to."""
        topics = [
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for name, indexes in by_topic(places).items()
        ]

        def read(answer: OffsetDeleteResponse, node: Node) -> None:
            for topic in answer.topics:
                for each in topic.partitions:
                    check(
                        each.error_code,
                        f"offset of {topic.name}-{each.partition_index} for group {group_id!r}",
                    )

        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        await self._ask_coordinator(CoordinatorKind.GROUP, group_id, OFFSET_DELETE, request, read)


def _old_topics(wanted: Mapping[str, list[int]] | None) -> list[OffsetFetchRequestTopic] | None:
    if wanted is None:
        return None
    return [OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in wanted.items()]


def _new_topics(wanted: Mapping[str, list[int]] | None) -> list[OffsetFetchRequestTopics] | None:
    if wanted is None:
        return None
    return [OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in wanted.items()]


def _places(assignment: Assignment) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    ]


def read_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions in a classic member's assignment; empty if it is not one of consumers."""
    places: list[TopicPartition] = []
    try:
        (topics,) = _INT.unpack_from(data, 2)
        at = 6
        for _ in range(topics):
            (size,) = _SHORT.unpack_from(data, at)
            topic = data[at + 2 : at + 2 + size].decode()
            at += 2 + size
            (count,) = _INT.unpack_from(data, at)
            at += 4
            for _ in range(count):
                places.append(TopicPartition(topic, *_INT.unpack_from(data, at)))
                at += 4
    except (LayoutError, UnicodeDecodeError):
        return []
    return places
