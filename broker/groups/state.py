"""All groups of one partition of `__consumer_offsets`: the state of one coordinator shard. Pure.

A request is decided by looking at its group; what it changes for good comes back through `replay`, in the same way
live as when the log is read after a change of leadership.
"""

from collections.abc import Callable, Iterable
from typing import Any

from rookery.broker.groups.group import Group
from rookery.broker.groups.group_state import GroupOptions, GroupState
from rookery.broker.groups.joining import Join
from rookery.broker.groups.members import Identity
from rookery.broker.groups.offsets import NO_PRODUCER
from rookery.broker.groups.records import GroupMetadataValue, GroupRecord, GroupsRecord, OffsetRecord
from rookery.broker.groups.step import Instant, Receiver, Step
from rookery.core.errors import ErrorCode, InvalidSessionTimeoutError, UnknownMemberIdError
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.heartbeat import HeartbeatRequest
from rookery.core.wire.apis.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from rookery.core.wire.apis.sync_group import SyncGroupRequest


class GroupsState:
    """`new_id` makes the random part of member ids."""

    def __init__(self, options: GroupOptions, new_id: Callable[[], str]) -> None:
        self.options = options
        self.groups: dict[str, Group] = {}
        self._new_id = new_id
        self._in_transactions: dict[int, set[str]] = {}
        """Groups with pending offsets, by producer id."""

    def find_or_make(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self.options, self._new_id)
        return group

    def member_group(self, group_id: str) -> Group:
        """The group of somebody who says to be a member. Raises where there is no such group."""
        group = self.groups.get(group_id)
        if group is None:
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
        else:
            self._replay_group(record.group, record.value)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is not None:
            self.find_or_make(group_id).replay(value)
            return
        group = self.groups.get(group_id)
        if group is not None:
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
            begun = group.loaded(now)
            step.records += begun.records
            step.answers += begun.answers
        return step

    def not_written(self, records: Iterable[GroupsRecord], error: ErrorCode, now: Instant) -> Step:
        """Groups that had changed for these records go back to what the log has."""
        step = Step()
        for record in records:
            group = self.groups.get(record.group)
            if isinstance(record, GroupRecord) and record.value is not None and group is not None:
                step.answers += group.abandon(error).answers
                group.restore(now)
        return step

    def abandon(self, error: ErrorCode) -> Step:
        """This coordinator is one no longer: whoever waits has to ask elsewhere."""
        step = Step()
        for group in self.groups.values():
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
        if join.member_id:
            return self.member_group(group_id).join(join, now)
        return self.find_or_make(group_id).join(join, now)

    def sync(self, request: SyncGroupRequest, to: Receiver, now: Instant) -> Step:
        return self.member_group(request.group_id).sync(request, to, now)

    def heartbeat(self, request: HeartbeatRequest, now: Instant) -> None:
        """Raises KafkaError where the member has to do something."""
        who = Identity(request.member_id, request.group_instance_id)
        self.member_group(request.group_id).heartbeat(who, request.generation_id, now)

    def leave(self, request: LeaveGroupRequest, to: Receiver, now: Instant, *, single: bool = False) -> Step:
        """In the `single` form, that of old versions, the error of the one member is that of the whole answer."""
        step = Step()
        leaving = [MemberIdentity(member_id=request.member_id)] if single else request.members
        group = self.groups.get(request.group_id)
        if group is None:
            members = [_unknown(each) for each in leaving]
        else:
            before = len(group.members)
            members = [group.leave(each, step) for each in leaving]
            group.left(before, now, step)
        error = members[0].error_code if single else ErrorCode.NONE
        step.answer(to, LeaveGroupResponse(error_code=error, members=members))
        return step

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
