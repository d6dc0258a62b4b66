"""All groups of one partition of `__consumer_offsets`: the state of one coordinator shard. Pure.

A request is decided by looking at its group; what it changes for good comes back through `replay`, in the same way
live as when the log is read after a change of leadership.
"""

from collections.abc import Callable, Iterable, Set
from typing import Any, cast

from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.broker.groups.consumer.member import JOIN_EPOCH
from rookery.broker.groups.consumer.migration import ClassicMembers, downgraded, upgraded
from rookery.broker.groups.consumer.records import ConsumerRecord, Kind
from rookery.broker.groups.consumer.request import Client, check_request
from rookery.broker.groups.consumer.stored import Stored
from rookery.broker.groups.consumer.target import NoTopics, Topics
from rookery.broker.groups.group import Group
from rookery.broker.groups.group_state import ConsumerOptions, GroupOptions, GroupState
from rookery.broker.groups.history import Event
from rookery.broker.groups.joining import Join
from rookery.broker.groups.members import Identity
from rookery.broker.groups.offsets import NO_PRODUCER
from rookery.broker.groups.records import GroupMetadataValue, GroupRecord, GroupsRecord, OffsetRecord
from rookery.broker.groups.step import Instant, Receiver, Step
from rookery.core.errors import (
    ErrorCode,
    GroupIdNotFoundError,
    InvalidSessionTimeoutError,
    UnknownMemberIdError,
)
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from rookery.core.wire.apis.heartbeat import HeartbeatRequest
from rookery.core.wire.apis.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from rookery.core.wire.apis.sync_group import SyncGroupRequest

AnyGroup = Group | ConsumerGroup


class GroupsState:
    """`new_id` makes the random part of member ids. `topics` are those of the cluster; `options_of` returns the
    settings of a group of the consumer protocol."""

    def __init__(
        self,
        options: GroupOptions,
        new_id: Callable[[], str],
        topics: Topics | None = None,
        options_of: Callable[[str], ConsumerOptions] | None = None,
    ) -> None:
        self.options = options
        self.groups: dict[str, AnyGroup] = {}
        self._new_id = new_id
        self._in_transactions: dict[int, set[str]] = {}
        """Groups with pending offsets, by producer id."""
        self._topics = NoTopics() if topics is None else topics
        self._begun: dict[str, ConsumerGroup] = {}
        """Groups whose first records are about to be written."""
        self._begun_classic: dict[str, Group] = {}
        self._options_of = options_of or (lambda group_id: options.consumer)

    def find_or_make(self, group_id: str) -> AnyGroup:
        group = self.groups.get(group_id)
        return self._make(group_id) if group is None else group

    def _make(self, group_id: str) -> Group:
        group = self.groups[group_id] = Group(group_id, self.options, self._new_id)
        return group

    def _make_consumer(self, group_id: str) -> ConsumerGroup:
        """A group of the consumer protocol; offsets that are already there are its own."""
        before = self.groups.get(group_id)
        group = self._begun.pop(group_id, None) or self._new_consumer(group_id)
        if before is not None:
            group.offsets = before.offsets
        self.groups[group_id] = group
        return group

    def _new_consumer(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(
            group_id,
            self._topics,
            lambda: self._options_of(group_id),
            self._new_id,
            lambda group, left, now: downgraded(group, left, self.options, now),
        )

    def member_group(self, group_id: str) -> Group:
        """The group of a client that claims to be a member. Raises where there is no such group."""
        group = self.groups.get(group_id)
        if not isinstance(group, Group):
            raise UnknownMemberIdError(f"there is no group {group_id!r}")
        return group

    # --- the log ----------------------------------------------------------------------------------------------

    def replay(self, record: GroupsRecord, at: int, producer_id: int = NO_PRODUCER) -> None:
        """A record stands at offset `at` of the log."""
        if isinstance(record, OffsetRecord):
            partition = TopicPartition(record.topic, record.partition)
            if record.value is not None:
                if producer_id != NO_PRODUCER:
                    self._in_transactions.setdefault(producer_id, set()).add(record.group)
                self.find_or_make(record.group).offsets.replay(partition, record.value, at, producer_id)
            elif record.group in self.groups:
                self.groups[record.group].offsets.replay(partition, None, at)
        elif isinstance(record, ConsumerRecord):
            self._replay_consumer(record)
        else:
            self._replay_group(record.group, record.value)

    def _replay_consumer(self, record: ConsumerRecord) -> None:
        """A group that had another protocol before has this one from now on."""
        group = self.groups.get(record.group)
        if record.value is None:
            if isinstance(group, ConsumerGroup):
                if record.kind is not Kind.GROUP:
                    group.replay(record)
                elif group.offsets or record.group in self._begun_classic:
                    classic = self._begun_classic.pop(record.group, None) or self._make(record.group)
                    classic.offsets = group.offsets
                    self.groups[record.group] = classic
                else:
                    del self.groups[record.group]
        elif isinstance(group, ConsumerGroup):
            group.replay(record)
        else:
            self._make_consumer(record.group).replay(record)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        group = self.groups.get(group_id)
        if value is not None:
            if not isinstance(group, Group):
                offsets = None if group is None else group.offsets
                group = self._make(group_id)
                group.offsets = group.offsets if offsets is None else offsets
            group.replay(value)
            return
        if isinstance(group, Group):
            group.stored = None
            if not group.offsets and group.state is GroupState.EMPTY:
                group.die()
                del self.groups[group_id]

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """A producer's end marker stands in the log."""
        for group_id in self._in_transactions.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, committed)

    def loaded(self, now: Instant) -> Step:
        """The whole log is read: members get a new session each."""
        step = Step()
        self.groups = {id: group for id, group in self.groups.items() if group.stored or group.offsets}
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                group.settle(now)
                continue
            begun = group.loaded(now)
            step.records += begun.records
            step.answers += begun.answers
        return step

    def not_written(self, records: Iterable[GroupsRecord], error: ErrorCode, now: Instant) -> Step:
        """Groups that had changed for these records go back to what the log has."""
        step = Step()
        for record in records:
            group = self.groups.get(record.group)
            self._begun.pop(record.group, None)
            begun = self._begun_classic.pop(record.group, None)
            if begun is not None:
                step.answers += begun.abandon(error).answers
            if group is not None:
                group.history.forget()
            if isinstance(group, ConsumerGroup):
                continue
            if isinstance(record, GroupRecord) and record.value is not None and group is not None:
                step.answers += group.abandon(error).answers
                group.restore(now)
        return step

    def abandon(self, error: ErrorCode) -> Step:
        """This broker is no longer the coordinator: all that wait have to ask elsewhere."""
        step = Step()
        for group in self.groups.values():
            if isinstance(group, Group):
                step.answers += group.abandon(error).answers
        return step

    # --- members ----------------------------------------------------------------------------------------------

    def join(self, group_id: str, join: Join, now: Instant) -> Step:
        options = self.options
        if not options.min_session_timeout_ms <= join.session_timeout_ms <= options.max_session_timeout_ms:
            raise InvalidSessionTimeoutError(
                f"session.timeout.ms={join.session_timeout_ms}, but {options.min_session_timeout_ms} to "
                f"{options.max_session_timeout_ms} is allowed here"
            )
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            if group.members:
                return self._classic_members(group).join(join, f"{join.client_id}-{self._new_id()}", now)
            return self._join_instead(group, join, now)
        if join.member_id:
            return self.member_group(group_id).join(join, now)
        return (group or self._make(group_id)).join(join, now)

    def _join_instead(self, group: ConsumerGroup, join: Join, now: Instant) -> Step:
        """A group of the consumer protocol without members becomes a classic one."""
        begun = Group(group.id, self.options, self._new_id)
        step = begun.join(join, now)
        self._begun_classic[group.id] = begun
        step.records[:0] = group.tombstones()
        return step

    def _classic_members(self, group: ConsumerGroup) -> ClassicMembers:
        return ClassicMembers(group, self.options)

    def sync(self, request: SyncGroupRequest, to: Receiver, now: Instant) -> Step:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members(group).sync(request, to, now)
        return self.member_group(request.group_id).sync(request, to, now)

    def heartbeat(self, request: HeartbeatRequest, now: Instant) -> None:
        """Raises KafkaError where the member has to do something."""
        who = Identity(request.member_id, request.group_instance_id)
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            self._classic_members(group).heartbeat(who, request.generation_id, now)
            return
        self.member_group(request.group_id).heartbeat(who, request.generation_id, now)

    def leave(self, request: LeaveGroupRequest, to: Receiver, now: Instant, *, single: bool = False) -> Step:
        """In the `single` form, that of old versions, the error of the one member is that of the whole answer."""
        step = Step()
        leaving = [MemberIdentity(member_id=request.member_id)] if single else request.members
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            step, members = self._classic_members(group).leave(leaving, now)
        elif group is None:
            members = [_unknown(each) for each in leaving]
        else:
            before = len(group.members)
            members = [group.leave(each, step) for each in leaving]
            group.left(before, now, step)
        error = members[0].error_code if single else ErrorCode.NONE
        step.answer(to, LeaveGroupResponse(error_code=error, members=members))
        return step

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, client: Client, to: Receiver, now: Instant
    ) -> Step:
        """ConsumerGroupHeartbeat. Who joins a group that is not there, or is empty, makes one of this protocol. Raises
        KafkaError."""
        check_request(request, version, self.options.consumer.assignors)
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group.heartbeat(request, client, to, now)
        if request.member_epoch != JOIN_EPOCH:
            raise GroupIdNotFoundError(f"there is no group {request.group_id!r} of the consumer protocol")
        begun = self._new_consumer(request.group_id)
        before: list[ConsumerRecord] = []
        if group is not None and group.state is not GroupState.EMPTY:
            draft = upgraded(group, self.options, self._topics)
            before, begun.stored = draft.records, draft.stored
        step = begun.heartbeat(request, client, to, now)
        begun.stored = Stored()  # all of it comes with the records
        self._begun[request.group_id] = begun
        if before:
            stay = len(cast(Group, group).members)
            begun.history.add(Event("upgraded", why=f"{stay} members of the classic protocol stay"))
            step.records[:0] = before
            step.answers += cast(Group, group).abandon(ErrorCode.REBALANCE_IN_PROGRESS).answers
        if group is not None and group.stored is not None:
            step.records[:0] = group.tombstones()
        return step

    def topics_changed(self, names: Set[str]) -> None:
        """These topics came, went or grew."""
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                group.topics_changed(names)

    def rights_changed(self) -> None:
        """Clients may see other topics than before."""
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                group.rights_changed()

    def on_time(self, group_id: str, now: Instant) -> Step:
        group = self.groups.get(group_id)
        return Step() if group is None else group.on_time(now)

    def as_stored(self) -> dict[str, Any]:
        """What a coordinator that takes over would find: for comparison."""
        return {
            id: (group.stored, dict(group.offsets))
            for id, group in self.groups.items()
            if group.stored or group.offsets
        }


def _unknown(who: MemberIdentity) -> MemberResponse:
    return MemberResponse(
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
    )
