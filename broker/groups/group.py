"""One classic group: members come together, agree on an assignment, and share partitions until one of them changes.

    state                input                                                          becomes
    Empty                a member joins                                                 PreparingRebalance
    Empty                deleted, or its last offset expired                            Dead
    PreparingRebalance   all members have joined, or their time is up                   CompletingRebalance
    PreparingRebalance   the same, but nobody is left                                   Empty
    CompletingRebalance  the leader hands in the assignment                             Stable
    CompletingRebalance  somebody joins anew, leaves, falls silent or never syncs       PreparingRebalance
    Stable               a new member, the leader or a changed member joins;
                         somebody leaves, falls silent or never syncs                   PreparingRebalance
    any                  what was to be written could not be written                    as the log has it

The machine is pure: every input comes with the time and with whom to answer; what comes out is a `Step`. Joins, syncs
and sessions live in memory alone and end with their coordinator. What outlasts it (generation, members, assignments) is
a record that each answer which depends on it waits for, so no member acts on an assignment that could be lost.
"""

from collections.abc import Callable, Iterable

from rookery.broker.groups.consumer.member import TopicIdPartition
from rookery.broker.groups.group_state import REACHED_FROM, GroupOptions, GroupState
from rookery.broker.groups.history import Event, History, departure
from rookery.broker.groups.joining import Join, not_joined, not_synced
from rookery.broker.groups.members import Identity, Member, Members
from rookery.broker.groups.offsets import Offsets
from rookery.broker.groups.records import NO_TIMESTAMP, GroupMetadataValue, GroupRecord
from rookery.broker.groups.step import Instant, Receiver, Step
from rookery.core.errors import (
    CoordinatorNotAvailableError,
    ErrorCode,
    FencedInstanceIdError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.join_group import JoinGroupResponse, JoinGroupResponseMember
from rookery.core.wire.apis.leave_group import MemberIdentity, MemberResponse
from rookery.core.wire.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from rookery.core.wire.consumer_protocol import CONSUMER, assigned_partitions

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a member that never got an answer may block a rebalance: its client may have gone unnoticed."""


class Group:
    """`new_id` makes the random part of member ids."""

    kind = "classic"

    def __init__(self, group_id: str, options: GroupOptions, new_id: Callable[[], str]) -> None:
        self.id = group_id
        self.state = GroupState.EMPTY
        self.members = Members()
        self.offsets = Offsets()
        self.history = History()
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.state_timestamp = NO_TIMESTAMP
        self.stored: GroupMetadataValue | None = None
        """The group as the log has it."""
        self._unknown_members = False
        """The log has members of it that are not among these."""
        self._options = options
        self._new_id = new_id
        self._generations = 0
        """The highest generation that was ever given out here, even one that was never stored."""
        self._expected: dict[str, int] = {}
        """Ids given to clients who have yet to join with them, and until when they may."""
        self._join_by: int | None = None
        self._delay_left_ms: int | None = None
        """Of a group that was empty: for how much longer it may wait for more members. None in all others."""
        self._joined_meanwhile = False
        self._sync_by: int | None = None
        self._due: int | None = None

    # --- what others may know ---------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The generation, by the name that both protocols have for it."""
        return self.generation

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """None where the members' subscriptions are not known."""
        return self.members.subscribed_topics(self.protocol_type, self.protocol)

    @property
    def deadline(self) -> int | None:
        """When the next thing is due that time alone brings about."""
        times = [member.deadline for member in self.members]
        times += [self._join_by, self._sync_by, *self._expected.values()]
        return min((time for time in times if time is not None), default=None)

    @property
    def due(self) -> int | None:
        """When `on_time` should be called: not after the deadline, perhaps before. To know that needs no look at
        all members, as the deadline does."""
        return self._due

    @property
    def expects_members(self) -> bool:
        """Whether a member was given an id and has yet to join with it."""
        return bool(self._expected)

    def record(self) -> GroupRecord:
        """The group as it would be stored now."""
        return GroupRecord(
            self.id,
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation,
                protocol=self.protocol,
                leader=self.members.leader,
                current_state_timestamp=self.state_timestamp,
                members=[member.stored(self.protocol) for member in self.members],
            ),
        )

    def tombstones(self) -> list[GroupRecord]:
        """What makes the group go."""
        return [GroupRecord(self.id, None)]

    # --- the log ----------------------------------------------------------------------------------------------

    def replay(self, value: GroupMetadataValue) -> None:
        """This is what the log has now. While the group lives, its own record changes nothing else."""
        self._unknown_members = bool(value.members) and not self.members
        self.stored = value

    def settle(self, now: Instant) -> None:
        """A group that was made of one of the consumer protocol begins with a rebalance."""
        if self._unknown_members:
            self.restore(now)

    def restore(self, now: Instant) -> None:
        """Become what the log has: after loading, or where something could not be written."""
        stored = self.stored
        self._unknown_members = False
        self.members = Members()
        self._expected.clear()
        self._join_by = self._sync_by = self._delay_left_ms = None
        self.state = GroupState.EMPTY
        if stored is None:
            self.generation, self.protocol = 0, None
            return
        self.protocol_type = stored.protocol_type or None
        self.protocol = stored.protocol
        self.generation = stored.generation
        self._generations = max(self._generations, stored.generation)
        self.state_timestamp = stored.current_state_timestamp
        for each in stored.members:
            member = Member.restored(each, stored.protocol)
            self._alive(member, now)
            self.members.add(member)
        if self.members:
            self.state = GroupState.STABLE
            self.members.leader = stored.leader
            if stored.leader is None:  # it was one of the consumer protocol: its rebalance is due
                self._prepare(now, Step())

    def loaded(self, now: Instant) -> Step:
        """The log is read: go on from there."""
        step = Step()
        self.restore(now)
        if self.state is GroupState.STABLE and len(self.members) > self._options.max_size:
            self._prepare(now, step)
        return step

    def abandon(self, error: ErrorCode) -> Step:
        """All that wait must ask again, perhaps elsewhere: leadership is lost, or a write failed."""
        step = Step()
        for member in self.members:
            self._answer_both(member, error, step)
        return step

    def die(self) -> None:
        """The group's tombstone is written."""
        self._become(GroupState.DEAD)

    # --- joining ----------------------------------------------------------------------------------------------

    def join(self, join: Join, now: Instant) -> Step:
        """JoinGroup: answered when the join phase ends, or at once where nothing changes. Raises KafkaError."""
        self._check_alive()
        step = Step()
        if not self._has_room_for(join.member_id):
            member = self.members.get(join.member_id)
            if member is not None:
                self._remove(member, "the group is full", step)
            step.answer(join.to, not_joined(join.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED))
            self._complete_if_joined(now, step)
            return step
        self._check_protocols(join)
        if join.member_id:
            self._join_with_id(join, now, step)
        else:
            self._join_without_id(join, now, step)
        return step

    def _has_room_for(self, member_id: str) -> bool:
        members, room = self.members, self._options.max_size
        if self.state is GroupState.EMPTY or len(members) < room:
            return True
        member = members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.joining is not None) or members.joining < room
        return member is not None or len(members) < room

    def _check_protocols(self, join: Join) -> None:
        names = {name for name, _ in join.protocols}
        if self.state is GroupState.EMPTY:
            fits = bool(join.protocol_type and names)
        else:
            spoken = len(self.members) == 0 or not names.isdisjoint(self.members.common_protocols())
            fits = join.protocol_type == self.protocol_type and bool(names) and spoken
        if not fits:
            raise InconsistentGroupProtocolError(
                f"group {self.id!r} has members of type {self.protocol_type!r} that all support "
                f"{sorted(self.members.common_protocols())}; the member joins as {join.protocol_type!r} with "
                f"{sorted(names)}"
            )

    def _join_without_id(self, join: Join, now: Instant, step: Step) -> None:
        known = self.members.with_instance(join.instance_id)
        member_id = f"{join.client_id if join.instance_id is None else join.instance_id}-{self._new_id()}"
        if known is not None:
            self._replace(known, member_id, join, now, step)
        elif join.instance_id is None and join.needs_known_id:
            self._expected[member_id] = self._by(now.ms + join.session_timeout_ms)
            step.answer(join.to, not_joined(member_id, ErrorCode.MEMBER_ID_REQUIRED))
        else:
            self._add(member_id, join, now, step)

    def _join_with_id(self, join: Join, now: Instant, step: Step) -> None:
        if join.member_id in self._expected and join.instance_id is None:
            del self._expected[join.member_id]
            self._add(join.member_id, join, now, step)
            return
        member = self.members.identified(Identity(join.member_id, join.instance_id))
        changed = member.protocols != join.protocols
        leads = self.members.leader == member.id
        if self.state is GroupState.COMPLETING_REBALANCE and not changed:
            step.answer(join.to, self._joined(member))  # it missed the answer to its last join
        elif self.state is GroupState.STABLE and not changed and not leads:
            step.answer(join.to, self._joined(member))
            self._alive(member, now)
        else:
            self._update(member, join, now, step)
            self._rebalance(now, step)

    def _add(self, member_id: str, join: Join, now: Instant, step: Step) -> None:
        if not self.members:
            self.protocol_type = join.protocol_type
        self._joined_meanwhile = True
        self.history.add(Event("joined", member_id, join.client_id))
        member = Member(
            id=member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            session_timeout_ms=join.session_timeout_ms,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            protocols=join.protocols,
            expires_at=0,
            is_new=True,
        )
        self._alive(member, now)
        self.members.add(member)
        self.members.joins(member, join.to)
        self._rebalance(now, step)

    def _update(self, member: Member, join: Join, now: Instant, step: Step) -> None:
        """A member joins again; its earlier join is no longer waited for."""
        self._answer_both(member, ErrorCode.REBALANCE_IN_PROGRESS, step)
        self.members.speaks(member, join.protocols)
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.client_id, member.client_host = join.client_id, join.client_host
        self._alive(member, now)
        self.members.joins(member, join.to)

    def _replace(self, member: Member, member_id: str, join: Join, now: Instant, step: Step) -> None:
        """A static member came back under a new id. Its old id is fenced; there is no rebalance, unless the group would
        decide otherwise with the member as it is now."""
        leader_before, topics_before = self.members.leader, self.subscribed_topics
        self._answer_both(member, ErrorCode.FENCED_INSTANCE_ID, step)
        self.members.rename(member, member_id)
        self.history.add(Event("returned", member_id, f"as instance {join.instance_id}"))
        self._update(member, join, now, step)
        stays = (
            self.state is GroupState.STABLE
            and self.members.elected_protocol() == self.protocol
            and self.subscribed_topics == topics_before
        )
        if not stays:
            self._rebalance(now, step)
            return
        self.members.answered(member)
        step.records.append(self.record())
        response = self._joined(member)
        if join.may_skip_assignment:
            response.skip_assignment = self.members.leader == member.id
        else:
            # A client that cannot skip the assignment must not take itself for the leader.
            response.leader, response.members = leader_before or "", []
        step.answer(join.to, response)

    # --- rebalancing ------------------------------------------------------------------------------------------

    def _rebalance(self, now: Instant, step: Step) -> None:
        """Something changed: begin a rebalance, or see whether the one under way can end."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_joined(now, step)
        else:
            self._prepare(now, step)

    def _prepare(self, now: Instant, step: Step) -> None:
        for member in self.members:
            if member.syncing is not None:
                self._answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, now, step)
        was_empty = self.state is GroupState.EMPTY
        self._become(GroupState.PREPARING_REBALANCE, now)
        self._sync_by = None
        self._delay_left_ms = None
        timeout_ms = self.members.rebalance_timeout_ms
        if was_empty and self._options.initial_rebalance_delay_ms > 0:
            delay_ms = self._options.initial_rebalance_delay_ms
            self._join_by = self._by(now.ms + delay_ms)
            self._delay_left_ms = max(timeout_ms - delay_ms, 0)
            self._joined_meanwhile = False
        else:
            self._join_by = self._by(now.ms + timeout_ms)
            self._complete_if_joined(now, step)

    def _complete_if_joined(self, now: Instant, step: Step) -> None:
        """A group that was empty waits out its delay even if all have joined: more may be about to."""
        if (
            self.state is GroupState.PREPARING_REBALANCE
            and self._delay_left_ms is None
            and not self._expected
            and self.members.joining == len(self.members)
        ):
            self._complete(now, step)

    def _join_time_is_up(self, now: Instant, step: Step) -> None:
        if self._delay_left_ms and self._joined_meanwhile:
            delay_ms = min(self._options.initial_rebalance_delay_ms, self._delay_left_ms)
            self._join_by = self._by(now.ms + delay_ms)
            self._delay_left_ms -= delay_ms
            self._joined_meanwhile = False
        else:
            self._complete(now, step)

    def _complete(self, now: Instant, step: Step) -> None:
        """End the join phase with those who came. Static members that did not join are kept."""
        for member in self.members:
            if member.joining is None and member.instance_id is None:
                self._remove(member, "did not join within the rebalance timeout", step)
        if self.members and not self.members.elect_joined_leader():
            self._join_by = self._by(now.ms + self.members.rebalance_timeout_ms)
            return
        self._join_by = self._delay_left_ms = None
        self._generations = self.generation = self._generations + 1
        if not self.members:
            self.protocol = None
            self._become(GroupState.EMPTY, now)
            step.records.append(self.record())
            return
        self.protocol = self.members.elected_protocol()
        self._become(GroupState.COMPLETING_REBALANCE, now)
        self._sync_by = self._by(now.ms + self.members.rebalance_timeout_ms)
        for member in self.members:
            to = self.members.answered(member)
            member.is_new = member.synced = False
            member.assignment = b""
            self._alive(member, now)
            if to is not None:
                step.answer(to, self._joined(member))

    # --- syncing ----------------------------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest, to: Receiver, now: Instant) -> Step:
        """SyncGroup: the leader hands in the assignment, all get their part of it. Raises KafkaError."""
        self._check_alive()
        member = self._current(Identity(request.member_id, request.group_instance_id), request.generation_id)
        for said, known in ((request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol)):
            if said is not None and said != known:
                raise InconsistentGroupProtocolError(f"group {self.id!r} agreed on {known!r}, not on {said!r}")
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgressError(f"group {self.id!r} rebalances")
        step = Step()
        self._answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, now, step)
        member.syncing, member.synced = to, True
        self._alive(member, now)
        if self.state is GroupState.STABLE:
            self._answer_sync(member, ErrorCode.NONE, now, step)
        elif member.id == self.members.leader:
            given = {each.member_id: each.assignment for each in request.assignments}
            self._assign(given, now, step)
        return step

    def _assign(self, given: dict[str, bytes], now: Instant, step: Step) -> None:
        stored = () if self.stored is None else self.stored.members
        self.history.assigned(self._read({each.member_id: each.assignment for each in stored}), self._read(given), str)
        self._become(GroupState.STABLE, now)
        for member in self.members:
            member.assignment = given.get(member.id, b"")
            self._alive(member, now)
            self._answer_sync(member, ErrorCode.NONE, now, step)
        step.records.append(self.record())

    def _read(self, given: dict[str, bytes]) -> dict[str, frozenset[TopicPartition]]:
        """Assignments, for the history; those of other protocol types are not read."""
        if self.protocol_type != CONSUMER:
            return {}
        return {id: assigned_partitions(assignment) for id, assignment in given.items()}

    def _sync_time_is_up(self, now: Instant, step: Step) -> None:
        """Members that never asked for their assignment are gone."""
        self._sync_by = None
        before = len(self.members)
        for member in self.members:
            if not member.synced:
                self._remove(member, "did not sync within the rebalance timeout", step)
        self.left(before, now, step)

    # --- staying and leaving ----------------------------------------------------------------------------------

    def heartbeat(self, who: Identity, generation: int, now: Instant) -> None:
        """Heartbeat: raises KafkaError where the member has to do something."""
        self._check_alive()
        self._alive(self._current(who, generation), now)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgressError(f"group {self.id!r} rebalances")

    def leave(self, who: MemberIdentity, step: Step) -> MemberResponse:
        """One entry of LeaveGroup. The group rebalances only when all entries are done: see `left`."""
        error = ErrorCode.NONE
        instance_id = who.group_instance_id
        member: Member | None = None
        if not who.member_id:
            member = self.members.with_instance(instance_id)
            error = ErrorCode.UNKNOWN_MEMBER_ID if member is None else ErrorCode.NONE
        elif who.member_id in self._expected and instance_id is None:
            del self._expected[who.member_id]
        else:
            try:
                member = self.members.identified(Identity(who.member_id, instance_id))
            except (UnknownMemberIdError, FencedInstanceIdError) as refusal:
                error = refusal.code
        if member is not None:
            self._remove(member, departure(who.reason), step)
        return MemberResponse(member_id=who.member_id, group_instance_id=instance_id, error_code=error)

    def left(self, before: int, now: Instant, step: Step) -> None:
        """Members may have gone; `before`, there were so many."""
        if len(self.members) < before:
            self._rebalance(now, step)
        else:
            self._complete_if_joined(now, step)  # an id that was waited for may have been given back

    def on_time(self, now: Instant) -> Step:
        """Time passed: remove members whose session is over, end the phases whose time is up."""
        step = Step()
        before = len(self.members)
        self._expected = {id: until for id, until in self._expected.items() if until > now.ms}
        for member in self.members:
            if member.deadline is not None and member.deadline <= now.ms:
                self._remove(member, "no heartbeat within the session timeout", step)
        self.left(before, now, step)
        if self._join_by is not None and self._join_by <= now.ms:
            self._join_time_is_up(now, step)
        if self._sync_by is not None and self._sync_by <= now.ms:
            self._sync_time_is_up(now, step)
        self._due = self.deadline
        return step

    def check_commit(
        self,
        who: Identity,
        generation: int,
        now: Instant,
        *,
        transactional: bool = False,
        version: int = 0,
        places: Callable[[], Iterable[TopicIdPartition]] = tuple,
    ) -> None:
        """Raise unless these offsets may be committed: by a member of this generation, or, where there are no
        members, by anybody who does not claim to be one. Counts as a sign of life. The version of the request and the
        partitions do not matter here."""
        self._check_alive()
        if generation < 0 and self.state is GroupState.EMPTY:
            return
        if generation >= 0 or who.member_id or who.instance_id is not None:
            self._alive(self._current(who, generation), now)
        elif not transactional:
            raise UnknownMemberIdError(
                f"group {self.id!r} has members, so only they may commit; the request names no member"
            )
        if self.state is GroupState.COMPLETING_REBALANCE and not transactional:
            raise RebalanceInProgressError(f"group {self.id!r} waits for its assignment")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Anybody may ask for offsets."""

    # --- small steps ------------------------------------------------------------------------------------------

    def _by(self, time_ms: int) -> int:
        """Something is due by then."""
        self._due = time_ms if self._due is None else min(self._due, time_ms)
        return time_ms

    def _alive(self, member: Member, now: Instant) -> None:
        """The member sent a request, or is answered: its session begins anew. One that waits for the answer to its
        first join has no session yet, however often it asks."""
        session_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        member.expires_at = self._by(now.ms + session_ms)

    def _check_alive(self) -> None:
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailableError(f"group {self.id!r} is being deleted")

    def _current(self, who: Identity, generation: int) -> Member:
        member = self.members.identified(who)
        if generation != self.generation:
            raise IllegalGenerationError(
                f"group {self.id!r} is at generation {self.generation}, member {who.member_id!r} says {generation}"
            )
        return member

    def _become(self, state: GroupState, now: Instant | None = None) -> None:
        if self.state not in REACHED_FROM[state]:
            raise RuntimeError(f"group {self.id!r} cannot go from {self.state.value} to {state.value}")
        self.state = state
        if now is not None:
            self.state_timestamp = now.wall_ms
            self.history.settled(state, now)

    def _remove(self, member: Member, why: str, step: Step) -> None:
        self.history.add(Event("removed", member.id, why))
        self._answer_both(member, ErrorCode.UNKNOWN_MEMBER_ID, step)
        self.members.remove(member)

    def _answer_both(self, member: Member, error: ErrorCode, step: Step) -> None:
        """Refuse what the member waits for: it leaves, or joins again."""
        to = self.members.answered(member)
        if to is not None:
            step.answer(to, not_joined(member.id, error))
        to, member.syncing = member.syncing, None
        if to is not None:
            step.answer(to, not_synced(error))

    def _answer_sync(self, member: Member, error: ErrorCode, now: Instant, step: Step) -> None:
        """A member that stays is answered. While it waited it had no session to keep: it has a whole one now."""
        if member.syncing is None:
            return
        to, member.syncing = member.syncing, None
        step.answer(to, self._synced(member) if error is ErrorCode.NONE else not_synced(error))
        self._alive(member, now)

    def _joined(self, member: Member) -> JoinGroupResponse:
        """Only the leader gets the list of members."""
        leads = member.id == self.members.leader
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.members.leader or "",
            member_id=member.id,
            members=[self._introduced(each) for each in self.members] if leads else [],
        )

    def _introduced(self, member: Member) -> JoinGroupResponseMember:
        return JoinGroupResponseMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(self.protocol),
        )

    def _synced(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=member.assignment
        )
