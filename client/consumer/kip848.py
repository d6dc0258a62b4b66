"""Membership of a group of the new consumer protocol (KIP-848): ConsumerGroupHeartbeat alone. Pure.

The coordinator sends what the member shall have; the user's call takes away what is no longer in it and adds what is
new; the next heartbeat confirms it by naming what the member has. Only what changed is sent, except after a failure:
then everything, and the coordinator answers with the whole assignment again.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from uuid import UUID

from rookery.client.consumer.membership import FOREVER, LATER, LOOK_ELSEWHERE, Ask, Rebalance, Step, Wait
from rookery.core.errors import ErrorCode, KafkaError, error_for
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
NO_EPOCH = -1
FIRST_INTERVAL_S = 5.0
UNRELEASED_S = 60.0
"""How long a static member waits for the end of its predecessor's session, which is a minute at most."""
FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class State(Enum):
    OUT = "out"
    JOINING = "joining"
    STABLE = "stable"
    LOST = "lost"
    """Fenced: the user gives up what it had, then the member joins again."""
    LEAVING = "leaving"
    """The user does not poll: the member leaves, and waits for the user."""


class ConsumerMembership:
    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        instance_id: str | None = None,
        rack: str | None = None,
        rebalance_timeout_s: float = 300.0,
        assignor: str | None = None,
    ) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._instance_id = instance_id
        self._rack = rack
        self._rebalance_timeout_ms = int(rebalance_timeout_s * 1000)
        self._assignor = assignor
        self._state = State.OUT
        self._epoch = JOIN_EPOCH
        self._topics: frozenset[str] = frozenset()
        self._pattern: str | None = None
        self._names: dict[UUID, str] = {}
        self._ids: dict[str, UUID] = {}
        self._target: dict[UUID, tuple[int, ...]] | None = None
        self._owned: frozenset[TopicPartition] = frozenset()
        self._interval_s = FIRST_INTERVAL_S
        self._heartbeat_at = 0.0
        self._send_all = True
        self._send_subscription = False
        self._send_owned = False
        self._leave_first = False
        self._refused_since: float | None = None
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
        return self._epoch if self._epoch > 0 else NO_EPOCH

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return self._owned

    @property
    def state(self) -> str:
        if self._state is State.STABLE and (self.pending is not None or self._send_owned):
            return "reconciling"
        return self._state.value

    @property
    def unnamed(self) -> frozenset[UUID]:
        """Topics of the assignment whose names are not known: `name` them."""
        return frozenset(id for id in self._target or () if id not in self._names)

    # --- what the user wants --------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str], pattern: str | None = None) -> None:
        if (topics, pattern) == (self._topics, self._pattern) and self._state is not State.OUT:
            return
        self._topics, self._pattern = topics, pattern
        if self._state is State.OUT:
            self._rejoin()
        else:
            self._send_subscription = True
            self._heartbeat_at = 0.0

    def name(self, names: Mapping[UUID, str]) -> None:
        """The names of topics by id."""
        for id, name in names.items():
            self._names[id] = name
            self._ids[name] = id
        self._reconcile()

    def learned(self, topics: Mapping[str, int], now: float) -> None:
        """Nothing to do: the coordinator watches the topics."""

    def rebalanced(self, done: Rebalance, now: float) -> None:
        self._owned = (self._owned - done.revoke) | done.assign
        if self.pending is not done:
            if self.pending is not None or (self._owned and self._state is State.JOINING):
                self.pending = Rebalance(revoke=self._owned, lost=True)  # fenced: what was just taken is lost too
                self._state = State.LOST if self._state is State.JOINING else self._state
            return
        self.pending = None
        if self._state in (State.LOST, State.LEAVING):
            self._rejoin()
        else:
            self._send_owned = True
            self._send_all |= done.lost  # the assignment that came meanwhile is to be sent again
            self._heartbeat_at = now
            self._reconcile()

    def expire(self, now: float) -> None:
        if self._state in (State.OUT, State.LEAVING):
            return
        self.reason = "the user did not poll"
        self._leave_first = True
        self._lose_all(State.LEAVING)

    def leave(self) -> Ask | None:
        """The request is sent even if none was answered yet: the coordinator may know the member all the same."""
        was, self._state = self._state, State.OUT
        self.pending = None
        self._owned = frozenset()
        self._topics = frozenset()
        self._target = None
        self._epoch = JOIN_EPOCH
        return None if was in (State.OUT, State.LEAVING) else self._leave_request()

    # --- steps ----------------------------------------------------------------------------------------------

    def next_step(self, now: float) -> Step:
        if self.failure is not None or self._state is State.OUT:
            return Wait(FOREVER)
        if self._leave_first:
            self._leave_first = False
            return self._leave_request()
        if self._state in (State.LOST, State.LEAVING):
            return Wait(FOREVER)  # until the user has given up what it lost
        if now < self._heartbeat_at:
            return Wait(self._heartbeat_at)
        return self._heartbeat()

    def failed(self, now: float) -> None:
        self._send_all = True
        self._heartbeat_at = now

    def _heartbeat(self) -> Ask:
        everything = self._send_all or self._epoch == JOIN_EPOCH
        subscription = everything or self._send_subscription
        owned = everything or self._send_owned
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._instance_id if everything else None,
            rack_id=self._rack if everything else None,
            rebalance_timeout_ms=self._rebalance_timeout_ms if everything else -1,
            subscribed_topic_names=sorted(self._topics) if subscription else None,
            subscribed_topic_regex=(self._pattern or "")
            if subscription and self._wants_pattern(everything)
            else None,
            server_assignor=self._assignor if everything else None,
            topic_partitions=self._by_id(self._owned) if owned else None,
        )
        self._send_all = self._send_subscription = self._send_owned = False
        at_least = 1 if self._pattern else 0  # v0 knows no patterns
        return Ask(CONSUMER_GROUP_HEARTBEAT, request, self._heartbeat_answered, at_least=at_least)

    def _wants_pattern(self, everything: bool) -> bool:
        """An empty pattern takes back the one before; a member that joins has none."""
        return bool(self._pattern) or not everything

    def _leave_request(self) -> Ask:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=LEAVE_EPOCH if self._instance_id is None else STATIC_LEAVE_EPOCH,
            instance_id=self._instance_id,
        )
        return Ask(CONSUMER_GROUP_HEARTBEAT, request, lambda _answer, _now: None)

    def _heartbeat_answered(self, answer: ConsumerGroupHeartbeatResponse, now: float) -> None:
        if self._state not in (State.JOINING, State.STABLE):
            return
        if answer.error_code:
            self._refused(answer, now)
            return
        self._refused_since = None
        self._member_id = answer.member_id or self._member_id
        self._epoch = answer.member_epoch
        self._state = State.STABLE
        self._interval_s = answer.heartbeat_interval_ms / 1000
        if not self._send_owned and not self._send_subscription:
            self._heartbeat_at = now + self._interval_s
        if answer.assignment is not None:
            self._target = {
                each.topic_id: tuple(each.partitions) for each in answer.assignment.topic_partitions
            }
            self.reason = "the coordinator changed the assignment"
            self._reconcile()

    def _reconcile(self) -> None:
        """Offer the user the difference between what it has and what it shall have, once its last one is done and all
        topics have names."""
        if (
            self._target is None
            or self.pending is not None
            or self._state is not State.STABLE
            or self.unnamed
        ):
            return
        wanted = frozenset(
            TopicPartition(self._names[id], index)
            for id, indexes in self._target.items()
            for index in indexes
        )
        self._target = None
        if wanted == self._owned:
            return
        self.rebalances += 1
        self.pending = Rebalance(revoke=self._owned - wanted, assign=wanted - self._owned)

    def _refused(self, answer: ConsumerGroupHeartbeatResponse, now: float) -> None:
        code = answer.error_code
        if code in FENCED:
            self.reason = f"the heartbeat was answered with {ErrorCode(code).name}"
            self._lose_all(State.LOST)
            return
        self._send_all = True
        self._heartbeat_at = now
        if code in LOOK_ELSEWHERE or code in LATER:
            return
        if code == ErrorCode.UNRELEASED_INSTANCE_ID:
            self._refused_since = now if self._refused_since is None else self._refused_since
            if now < self._refused_since + UNRELEASED_S:
                return
        self.failure = error_for(code, answer.error_message or f"heartbeat of group {self._group_id!r}")

    def _lose_all(self, state: State) -> None:
        self._target = None
        self._epoch = JOIN_EPOCH
        if self._owned or state is State.LEAVING:
            self.pending = Rebalance(revoke=self._owned, lost=True)
            self._state = state
        else:
            self.pending = None
            self._rejoin()

    def _rejoin(self) -> None:
        self._state = State.JOINING
        self._epoch = JOIN_EPOCH
        self._send_all = True
        self._heartbeat_at = 0.0

    def _by_id(self, places: Collection[TopicPartition]) -> list[TopicPartitions]:
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(places):
            topics.setdefault(topic, []).append(index)
        return [TopicPartitions(topic_id=self._ids[topic], partitions=each) for topic, each in topics.items()]
