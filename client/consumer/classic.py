"""Membership of a classic group: JoinGroup, SyncGroup, Heartbeat. Pure.

With an eager assignor all partitions are given up before the member joins again. With a cooperative one the member
keeps them; what the new assignment does not contain is revoked after it, and the member then joins once more so that
others get it.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from rookery.client.consumer.assignors import Assignor, Member
from rookery.client.consumer.membership import (
    FOREVER,
    LATER,
    LOOK_ELSEWHERE,
    Ask,
    Learn,
    Rebalance,
    Step,
    Wait,
)
from rookery.core.errors import ErrorCode, InconsistentGroupProtocolError, KafkaError, error_for
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.heartbeat import HEARTBEAT, HeartbeatRequest, HeartbeatResponse
from rookery.core.wire.apis.join_group import (
    JOIN_GROUP,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from rookery.core.wire.apis.leave_group import LEAVE_GROUP, LeaveGroupRequest, MemberIdentity
from rookery.core.wire.apis.sync_group import (
    SYNC_GROUP,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from rookery.core.wire.consumer_protocol import (
    ASSIGNMENT,
    CONSUMER,
    SUBSCRIPTION,
    Assignment,
    Subscription,
    TopicPartitions,
    from_bytes,
    to_bytes,
)
from rookery.core.wire.primitives import WireError

SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 3
NO_GENERATION = -1
OUTSIDE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
"""The group went on without this member."""


class State(Enum):
    OUT = "out"
    """Not subscribed."""
    REVOKING = "revoking"
    """The user gives up partitions; then the member joins."""
    JOINING = "joining"
    ASSIGNING = "assigning"
    """This member leads the group and needs to know the topics' partitions."""
    SYNCING = "syncing"
    TAKING = "taking"
    """The user is given its partitions."""
    STABLE = "stable"
    LEAVING = "leaving"
    """The user does not poll: the member leaves, and waits for the user."""


class ClassicMembership:
    def __init__(
        self,
        group_id: str,
        assignors: Sequence[Assignor],
        *,
        instance_id: str | None = None,
        rack: str | None = None,
        session_timeout_s: float = 45.0,
        rebalance_timeout_s: float = 300.0,
        heartbeat_interval_s: float = 3.0,
    ) -> None:
        self._group_id = group_id
        self._assignors = {each.name: each for each in assignors}
        self._cooperative = all(each.cooperative for each in assignors)
        """Only if all of them are: a group that may turn to an eager one keeps to its rules."""
        self._instance_id = instance_id
        self._rack = rack
        self._session_timeout_ms = int(session_timeout_s * 1000)
        self._rebalance_timeout_ms = int(rebalance_timeout_s * 1000)
        self._interval_s = heartbeat_interval_s
        self._state = State.OUT
        self._member_id = ""
        self._generation = NO_GENERATION
        self._topics: frozenset[str] = frozenset()
        self._joined_topics: frozenset[str] = frozenset()
        self._counts: Mapping[str, int] | None = None
        """As leader: what the assignment was made from."""
        self._owned: frozenset[TopicPartition] = frozenset()
        self._protocol = ""
        self._members: list[Member] = []
        self._to_sync: list[SyncGroupRequestAssignment] = []
        self._skip_assignment = False
        self._heartbeat_at = 0.0
        self._leave_first = False
        self._rejoin_after = False
        self.pending: Rebalance | None = None
        self.failure: KafkaError | None = None
        self.reason = "the member joins"
        self.rebalances = 0

    # --- facts ----------------------------------------------------------------------------------------------

    @property
    def member_id(self) -> str:
        return self._member_id

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return self._owned

    @property
    def state(self) -> str:
        return self._state.value

    @property
    def leads(self) -> bool:
        return bool(self._members) or self._counts is not None

    # --- what the user wants --------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str], pattern: str | None = None) -> None:
        if topics == self._topics and self._state is not State.OUT:
            return
        self._topics = topics
        if self._state is State.OUT:
            self._prepare("the member joins")
        elif self._state is State.STABLE:
            self._prepare("the subscription changed")
        # otherwise the join under way is followed by another one: `_joined_topics` differs

    def learned(self, topics: Mapping[str, int], now: float) -> None:
        if self._state is State.ASSIGNING:
            self._assign(topics)
        elif self._state is State.STABLE and self._counts is not None and self._changed(topics):
            self._prepare("the partitions of a topic changed")

    def _changed(self, topics: Mapping[str, int]) -> bool:
        return any(topics.get(name, 0) != count for name, count in (self._counts or {}).items())

    def rebalanced(self, done: Rebalance, now: float) -> None:
        self._owned = (self._owned - done.revoke) | done.assign
        if self.pending is not done:  # replaced meanwhile: all is lost, what was just taken too
            joins = self._state in (State.JOINING, State.ASSIGNING, State.SYNCING)
            if self.pending is not None or (self._owned and joins):
                self.pending = Rebalance(revoke=self._owned, lost=True)
                self._state = State.REVOKING if joins else self._state
                self._rejoin_after = True  # for what the group gave meanwhile
            return
        self.pending = None
        if self._state in (State.REVOKING, State.LEAVING):
            self._state = State.JOINING
        elif self._state is State.TAKING:
            self._state = State.STABLE
            if self._rejoin_after:
                self._prepare("partitions were given up for others")
            elif self._topics != self._joined_topics:
                self._prepare("the subscription changed")

    def expire(self, now: float) -> None:
        if self._state in (State.OUT, State.LEAVING):
            return
        self.reason = "the user did not poll"
        self._leave_first = self._instance_id is None and bool(self._member_id)
        self._lose_all(State.LEAVING)

    def leave(self) -> Ask | None:
        in_group = bool(self._member_id) and self._state is not State.OUT
        request = (
            self._leave_request() if in_group and self._instance_id is None else None
        )  # a static one comes back
        self._state = State.OUT
        self._member_id = ""
        self._generation = NO_GENERATION
        self._owned = frozenset()
        self._topics = frozenset()
        self._members, self._counts = [], None
        self.pending = None
        self._leave_first = False
        return request

    # --- steps ----------------------------------------------------------------------------------------------

    def next_step(self, now: float) -> Step:
        if self.failure is not None or self._state is State.OUT:
            return Wait(FOREVER)
        if self._leave_first:
            return self._leave_request()
        if self._state is State.JOINING:
            return Ask(JOIN_GROUP, self._join_request(), self._joined, slow=True)
        if self._state is State.ASSIGNING:
            return Learn(frozenset(topic for member in self._members for topic in member.topics))
        if self._state is State.SYNCING:
            return Ask(SYNC_GROUP, self._sync_request(), self._synced, slow=True)
        if self._generation == NO_GENERATION:
            return Wait(FOREVER)  # until the user has given up what it lost
        if now >= self._heartbeat_at:
            return Ask(HEARTBEAT, self._heartbeat_request(), self._heartbeat_answered)
        return Wait(self._heartbeat_at)

    def failed(self, now: float) -> None:
        """Joins and syncs are simply sent again; what a lost answer changed comes out with the next one."""
        self._leave_first = False
        self._heartbeat_at = now

    def _leave_request(self) -> Ask:
        me = MemberIdentity(
            member_id=self._member_id, group_instance_id=self._instance_id, reason=self.reason
        )
        request = LeaveGroupRequest(group_id=self._group_id, member_id=self._member_id, members=[me])
        return Ask(LEAVE_GROUP, request, self._left)

    def _left(self, _answer: object, _now: float) -> None:
        self._leave_first = False
        self._member_id = ""

    # --- join -----------------------------------------------------------------------------------------------

    def _prepare(self, reason: str) -> None:
        """Join again; with an eager assignor everything is given up first."""
        self.reason = reason
        self._rejoin_after = False
        gone = frozenset(tp for tp in self._owned if not self._cooperative or tp.topic not in self._topics)
        if gone:
            self.pending = Rebalance(revoke=gone)
            self._state = State.REVOKING
        else:
            self._state = State.JOINING

    def _lose_all(self, state: State) -> None:
        """The group went on without this member: its partitions may be with others."""
        self._generation = NO_GENERATION
        self._counts = None
        self._members = []
        if self._owned or state is State.LEAVING:
            self.pending = Rebalance(revoke=self._owned, lost=True)
            self._state = state
        else:
            self.pending = None
            self._state = State.JOINING

    def _join_request(self) -> JoinGroupRequest:
        self._joined_topics = self._topics
        owned = _by_topic(self._owned if self._cooperative else ())
        protocols = [
            JoinGroupRequestProtocol(
                name=name,
                metadata=to_bytes(
                    SUBSCRIPTION,
                    SUBSCRIPTION_VERSION,
                    Subscription(
                        topics=sorted(self._topics),
                        user_data=assignor.user_data(),
                        owned_partitions=owned,
                        generation_id=self._generation,
                        rack_id=self._rack,
                    ),
                ),
            )
            for name, assignor in self._assignors.items()
        ]
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=CONSUMER,
            protocols=protocols,
            reason=self.reason[:255],
        )

    def _joined(self, answer: JoinGroupResponse, now: float) -> None:
        code = answer.error_code
        if self._state is not State.JOINING:
            return  # left meanwhile
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return  # and join with it
        if code:
            self._refused(code, "JoinGroup", now)
            return
        self._member_id = answer.member_id
        self._generation = answer.generation_id
        self._protocol = answer.protocol_name or ""
        self._to_sync = []
        self._skip_assignment = answer.skip_assignment
        self._counts = None
        self._members = []
        self._heartbeat_at = now + self._interval_s
        if self._protocol not in self._assignors:
            self.failure = InconsistentGroupProtocolError(
                f"the group chose {self._protocol!r}, which is not ours"
            )
            return
        if answer.leader == answer.member_id:
            self._members = [
                _member(each.member_id, each.group_instance_id, each.metadata) for each in answer.members
            ]
            self._state = State.ASSIGNING
        else:
            self._state = State.SYNCING

    def _assign(self, counts: Mapping[str, int]) -> None:
        topics = {topic for member in self._members for topic in member.topics}
        self._counts = {topic: counts.get(topic, 0) for topic in topics}
        if not self._skip_assignment:  # a static leader that returned only watches the topics
            given = self._assignors[self._protocol].assign(self._members, self._counts)
            self._to_sync = [
                SyncGroupRequestAssignment(
                    member_id=member,
                    assignment=to_bytes(
                        ASSIGNMENT, ASSIGNMENT_VERSION, Assignment(assigned_partitions=_by_topic(places))
                    ),
                )
                for member, places in given.items()
            ]
        self._state = State.SYNCING

    def _sync_request(self) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=CONSUMER,
            protocol_name=self._protocol,
            assignments=self._to_sync,
        )

    def _synced(self, answer: SyncGroupResponse, now: float) -> None:
        if self._state is not State.SYNCING:
            return  # left meanwhile
        if answer.error_code:
            self._refused(answer.error_code, "SyncGroup", now)
            return
        self._to_sync = []
        places = _places(answer.assignment)
        self._assignors[self._protocol].assigned(places, self._generation)
        self._heartbeat_at = now + self._interval_s
        self.rebalances += 1
        revoke = self._owned - places if self._cooperative else frozenset[TopicPartition]()
        self._rejoin_after = bool(revoke)
        self.pending = Rebalance(revoke=revoke, assign=places - self._owned)
        self._state = State.TAKING

    # --- heartbeats -----------------------------------------------------------------------------------------

    def _heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )

    def _heartbeat_answered(self, answer: HeartbeatResponse, now: float) -> None:
        self._heartbeat_at = now + self._interval_s
        if self._state in (State.OUT, State.LEAVING):
            return
        code = answer.error_code
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self._state is State.STABLE:
                self._prepare("another member joins or leaves")
            elif self._state is State.TAKING:
                self._rejoin_after = True
        elif code:
            self._refused(code, "Heartbeat", now)

    def _refused(self, code: int, what: str, now: float) -> None:
        if code in OUTSIDE:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            self.reason = f"{what} was answered with {ErrorCode(code).name}"
            self._lose_all(State.REVOKING)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._state = State.JOINING  # another one began before this one ended
        elif code not in LOOK_ELSEWHERE and code not in LATER:
            self.failure = error_for(code, f"{what} of group {self._group_id!r}")


def _member(id: str, instance_id: str | None, metadata: bytes) -> Member:
    """A member by its subscription; one that cannot be read gets nothing."""
    try:
        sent = from_bytes(SUBSCRIPTION, metadata)
    except WireError:
        return Member(id, (), instance_id=instance_id)
    return Member(
        id,
        tuple(sent.topics),
        tuple(
            TopicPartition(each.topic, index) for each in sent.owned_partitions for index in each.partitions
        ),
        sent.generation_id,
        instance_id,
        sent.rack_id,
        bytes(sent.user_data or b""),
    )


def _by_topic(places: Collection[TopicPartition]) -> list[TopicPartitions]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(places):
        topics.setdefault(topic, []).append(index)
    return [TopicPartitions(topic=topic, partitions=each) for topic, each in topics.items()]


def _places(assignment: bytes) -> frozenset[TopicPartition]:
    """Empty bytes are an assignment of nothing."""
    if not assignment:
        return frozenset()
    given = from_bytes(ASSIGNMENT, assignment)
    return frozenset(
        TopicPartition(each.topic, index) for each in given.assigned_partitions for index in each.partitions
    )
