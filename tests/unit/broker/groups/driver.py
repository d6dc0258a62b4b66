"""A group under test: requests in, answers out, time by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from rookery.broker.groups.group_state import GroupOptions
from rookery.broker.groups.joining import Join
from rookery.broker.groups.records import GroupsRecord, decode, encode
from rookery.broker.groups.state import GroupsState
from rookery.broker.groups.step import Instant, Step
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.wire.apis.heartbeat import HeartbeatRequest
from rookery.core.wire.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from rookery.core.wire.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from rookery.core.wire.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "g"
TOPIC_ID = UUID(int=1)
CALLS_MAX = 10_000
START = Instant(1_000_000, 1_700_000_000_000)


def subscription(*topics: str) -> bytes:
    """The first fields of a consumer's subscription, version 0, with empty user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + (-1).to_bytes(4, "big", signed=True)


RANGE = (("range", subscription("t")),)


@dataclass
class Caller:
    """Somebody who waits for an answer."""

    response: Any = None
    answers: int = 0

    def complete(self, response: Any) -> None:
        self.response = response
        self.answers += 1

    def refuse(self, error: KafkaError) -> None:
        self.complete(error.code)

    @property
    def waiting(self) -> bool:
        return self.answers == 0


@dataclass
class Driver:
    """One shard's groups; records are taken as committed at once, through their bytes."""

    options: GroupOptions = field(default_factory=GroupOptions)
    now: Instant = START
    fail_writes: ErrorCode | None = None
    topics: dict[str, UUID | None] = field(default_factory=lambda: {"unknown": None})
    """Ids of topics; all others that are asked for are there too."""

    def __post_init__(self) -> None:
        ids = count(1)
        self.new_id = lambda: str(next(ids))
        self.state = GroupsState(self.options, self.new_id)
        self.log: list[GroupsRecord] = []
        self.forgot = 0
        """How often what was in memory alone was lost: by a failover, or a write that failed."""

    def topic_id_of(self, topic: str, partition: int) -> UUID | None:
        return self.topics.get(topic, TOPIC_ID)

    # --- carrying out -----------------------------------------------------------------------------------------

    def run(self, step: Step) -> None:
        if step.records and self.fail_writes is not None:
            self.forgot += 1
            failed = self.state.not_written(step.records, self.fail_writes, self.now)
            for to, _ in step.answers:
                to.complete(self.fail_writes)
            self.run(failed)
            return
        for record in step.records:
            stored = decode(*encode(record))
            assert stored == record
            self.state.replay(record, len(self.log))
            self.log.append(record)
        for to, response in step.answers:
            to.complete(response)

    def reload(self) -> GroupsState:
        """The coordinator fails over: another reads the log."""
        self.forgot += 1
        self.state = GroupsState(self.options, self.new_id)
        for offset, record in enumerate(self.log):
            self.state.replay(record, offset)
        self.run(self.state.loaded(self.now))
        return self.state

    def wait(self, ms: int) -> None:
        """Let time pass, stopping wherever a group wants to be called."""
        end = self.now.ms + ms
        for _ in range(CALLS_MAX):
            due = [time for group in self.state.groups.values() if (time := group.deadline) is not None]
            at = min([end, *(max(time, self.now.ms) for time in due)])
            self.now = Instant(at, self.now.wall_ms + at - self.now.ms)
            for group_id in list(self.state.groups):
                group = self.state.groups.get(group_id)
                if group is not None and group.deadline is not None and group.deadline <= at:
                    self.run(self.state.on_time(group_id, self.now))
                if group is not None and group.deadline is not None:
                    assert group.due is not None, "nobody would call"
                    assert group.due <= group.deadline, "the call would come too late"
            if at == end:
                return
        raise AssertionError("a group wants to be called again and again without time passing")

    # --- requests ---------------------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        group: str = GROUP,
        client: str = "client",
    ) -> Caller:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version else -1,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        )
        caller = Caller()
        try:
            join = Join.of(request, version, client, "/127.0.0.1", caller)
            self.run(self.state.join(group, join, self.now))
        except KafkaError as error:
            caller.complete(JoinGroupResponse(
                error_code=error.code, protocol_name="", leader="", member_id=member_id, members=()
            ))  # fmt: skip
        return caller

    def join_known(self, **options: Any) -> tuple[str, Caller]:
        """Ask for an id, then join with it."""
        first = self.join(**options)
        assert first.response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id = first.response.member_id
        return member_id, self.join(member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol: str | None = None,
        protocol_type: str | None = None,
    ) -> Caller:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=id, assignment=assignment)
                for id, assignment in (assignments or {}).items()
            ],
        )
        caller = Caller()
        try:
            self.run(self.state.sync(request, caller, self.now))
        except KafkaError as error:
            caller.complete(SyncGroupResponse(error_code=error.code, assignment=b""))
        return caller

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        try:
            self.state.heartbeat(request, self.now)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def leave(self, *members: tuple[str, str | None]) -> LeaveGroupResponse:
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[MemberIdentity(member_id=id, group_instance_id=instance) for id, instance in members],
        )
        caller = Caller()
        self.run(self.state.leave(request, caller, self.now))
        response: LeaveGroupResponse = caller.response
        return response

    # --- whole phases -----------------------------------------------------------------------------------------

    def stable(self, size: int = 1, **options: Any) -> list[str]:
        """A stable group of so many members; the first leads. Generation 1."""
        joins = [self.join_known(**options) for _ in range(size)]
        self.wait(self.options.initial_rebalance_delay_ms * 2 + 1)
        assert all(caller.response.error_code == 0 for _, caller in joins)
        generation = joins[0][1].response.generation_id
        members = [member_id for member_id, _ in joins]
        for member_id in reversed(members):
            self.sync(member_id, generation, {id: id.encode() for id in members} if member_id == members[0] else None)
        assert self.group.state.value == "Stable"
        return members

    @property
    def group(self) -> Any:
        return self.state.groups[GROUP]
