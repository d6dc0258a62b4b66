"""One group of the consumer protocol (KIP-848): the coordinator assigns, members follow one by one.

Three epochs describe the state of a rebalance. The group's epoch rises when a member comes, goes or changes its
subscription, or when its topics change. The assignment epoch is the group epoch for which the target was computed last.
A member's epoch is that of the target it has reached; `reconcile` takes it there. So no member stops for a rebalance:
it only gives up what is meant for another, and continues with the rest.

All that outlasts the coordinator is in `stored`, which only records of the log change. In memory alone are the
deadlines: of the session of each member, of members that have partitions to give up, and of those that have to
rejoin.
"""

from collections.abc import Callable, Iterable, Set
from uuid import UUID

from rookery.broker.groups.consumer.member import (
    JOIN_EPOCH,
    NOTHING,
    STATIC_LEAVE_EPOCH,
    Current,
    Member,
    MemberState,
    TopicIdPartition,
    TopicIdPartitions,
    also_give_up,
    by_topic,
    reconcile,
)
from rookery.broker.groups.consumer.records import ConsumerRecord, Kind, MemberValue, RegexValue
from rookery.broker.groups.consumer.regex import compiled
from rookery.broker.groups.consumer.request import Client, Sees, owned_of
from rookery.broker.groups.consumer.stored import Draft, Stored, tombstones
from rookery.broker.groups.consumer.target import Subscriptions, Topics, compute, preferred_assignor
from rookery.broker.groups.group_state import ConsumerOptions, GroupState
from rookery.broker.groups.history import Event, History
from rookery.broker.groups.members import Identity
from rookery.broker.groups.offsets import Offsets
from rookery.broker.groups.records import NO_TIMESTAMP
from rookery.broker.groups.step import Instant, Receiver, Step
from rookery.core.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    KafkaError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedVersionError,
)
from rookery.core.wire.apis.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

REGEX_PAUSE_MS = 10_000
"""Topics are not matched again sooner than this: each match looks at all of them."""
EPOCH_COMMITS_FROM = 9
"""Members commit in their epoch from this version of OffsetCommit on."""


class ConsumerGroup:
    """`new_id` makes the ids of members that bring none; `options` may change between two calls; `to_classic` converts
    the group when its last member of the consumer protocol is gone."""

    kind = "consumer"
    protocol_type = "consumer"
    protocol: str | None = None
    state_timestamp = NO_TIMESTAMP
    expects_members = False

    def __init__(
        self,
        group_id: str,
        topics: Topics,
        options: Callable[[], ConsumerOptions],
        new_id: Callable[[], str],
        to_classic: "ToClassic | None" = None,
    ) -> None:
        self.id = group_id
        self.stored = Stored()
        self.offsets = Offsets()
        self.history = History()
        self.rebalances = 0
        """How often its epoch rose here."""
        self._topics = topics
        self._options = options
        self._new_id = new_id
        self._downgrade = to_classic
        self._stale = True
        """Topics may have changed since the target was computed."""
        self._sessions: dict[str, int] = {}
        self._confirmed: dict[str, int] = {}
        """The epochs that members have shown to know they are in."""
        self._revoke_by: dict[str, tuple[int, Current]] = {}
        """Until when members have to give up partitions, and which."""
        self.join_by: dict[str, int] = {}
        """Until when members of the classic protocol have to rejoin, or to sync."""
        self._unsettled: set[str] = set()
        """Members whose record changed since deadlines were set last."""
        self._settled = True  # nothing changed since then: most heartbeats need not look at all members
        self._due: int | None = None

    # --- what others may know ---------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.stored.epoch

    @property
    def members(self) -> dict[str, Member]:
        return self.stored.members

    @property
    def state(self) -> GroupState:
        stored = self.stored
        if not stored.members:
            return GroupState.EMPTY
        if stored.epoch > stored.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.current.reached(stored.assignment_epoch) for member in stored.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    @property
    def subscriptions(self) -> Subscriptions:
        return Subscriptions(self.stored.members, self.stored.resolved, self._topics)

    @property
    def subscribed_topics(self) -> frozenset[str]:
        resolved = self.stored.resolved
        names: set[str] = set()
        for member in self.stored.members.values():
            names.update(member.about.subscribed_topic_names)
            names |= resolved.get(member.about.subscribed_topic_regex or "", frozenset())
        return frozenset(names)

    @property
    def assignor(self) -> str:
        return preferred_assignor(self.stored.members.values(), self._options().assignors)

    @property
    def deadline(self) -> int | None:
        times = [*self._sessions.values(), *(until for until, _ in self._revoke_by.values()), *self.join_by.values()]
        return min(times, default=None)

    @property
    def due(self) -> int | None:
        return self._due

    @property
    def topics(self) -> Topics:
        return self._topics

    @property
    def options(self) -> ConsumerOptions:
        return self._options()

    def tombstones(self) -> list[ConsumerRecord]:
        return tombstones(self.id, self.stored)

    def topics_changed(self, names: Set[str]) -> None:
        """These topics came, went or grew."""
        if self.stored.regexes or not names.isdisjoint(self.subscribed_topics):
            self._stale = True

    def rights_changed(self) -> None:
        """Clients may see other topics than before."""
        if self.stored.regexes:
            self._stale = True

    # --- the log ----------------------------------------------------------------------------------------------

    def replay(self, record: ConsumerRecord) -> None:
        self._settled = False
        if record.kind in (Kind.MEMBER, Kind.CURRENT):
            self._unsettled.add(record.item)
        elif record.kind is Kind.GROUP and record.value is not None and record.value.epoch > self.stored.epoch:
            self.rebalances += 1
        self.stored.replay(record)

    def settle(self, now: Instant) -> None:
        """Set the deadlines that follow from what was written: of new members, and of those that have to give up
        partitions."""
        if self._settled:
            return
        for id in sorted(self._unsettled):
            member = self.stored.members.get(id)
            if member is None:
                self._sessions.pop(id, None)
                self._confirmed.pop(id, None)
                self._revoke_by.pop(id, None)
                self.join_by.pop(id, None)
                continue
            if id not in self._sessions:
                self.alive(member, now)
            current = member.current
            if current.state is not MemberState.UNREVOKED_PARTITIONS or member.is_classic or current.epoch < 0:
                self._revoke_by.pop(id, None)
            elif self._revoke_by.get(id, (0, None))[1] != current:
                until = self.by(now.ms + max(member.about.rebalance_timeout_ms, 0))
                self._revoke_by[id] = until, current
        self._unsettled.clear()
        self._settled = True
        self.history.settled(self.state, now)

    # --- the heartbeat ----------------------------------------------------------------------------------------

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, to: Receiver, now: Instant
    ) -> Step:
        """ConsumerGroupHeartbeat. Raises KafkaError."""
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(request, to, now)
        step = Step()
        member = self.stored.members.get(request.member_id)
        if member is not None and self._changes_nothing(member, request, client):
            self._confirmed[member.id] = request.member_epoch
            self.alive(member, now)
            step.answer(to, self._answer(request, member, member))
            return step
        draft = Draft(self.id, self.stored)
        before = self._joined(draft, request, client) if request.member_epoch == JOIN_EPOCH else self._known(request)
        about = self._about(draft, before, request, client)
        after = self.advance(draft, before, about, owned_of(request), now, client.sees)
        if before.id in self.stored.members:
            self.alive(before, now)
        step.records += draft.records
        step.answer(to, self._answer(request, before, after))
        return step

    def _changes_nothing(
        self, member: Member, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> bool:
        """A shortcut for nearly all heartbeats."""
        stored = self.stored
        return (
            member.current.epoch == request.member_epoch == stored.epoch == stored.assignment_epoch
            and not self._stale
            and member.current.state is MemberState.STABLE
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.server_assignor is None
            and request.rack_id is None
            and request.rebalance_timeout_ms == -1
            and request.instance_id in (None, member.instance_id)
            and not member.is_classic
            and member.about.client_id == client.id
            and member.about.client_host == client.host
        )

    def _joined(self, draft: Draft, request: ConsumerGroupHeartbeatRequest, client: Client) -> Member:
        """The member that joins, or joins again."""
        id = request.member_id or self._new_id()
        stored = self.stored
        static = None if request.instance_id is None else stored.with_instance(request.instance_id)
        if static is not None and (static.id != id or static.current.epoch == STATIC_LEAVE_EPOCH):
            if static.current.epoch != STATIC_LEAVE_EPOCH and not static.is_classic:
                raise UnreleasedInstanceIdError(
                    f"the instance {request.instance_id!r} of group {self.id!r} is member {static.id!r}, which has "
                    f"not left: end it, or wait for the end of its session"
                )
            draft.rename(static, id)
            self.history.add(Event("returned", id, f"as instance {request.instance_id}"))
            return draft.stored.members[id]
        member = stored.members.get(id)
        if member is not None:
            return member
        self.check_room()
        self.history.add(Event("joined", id, client.id))
        return Member(id, MemberValue(client_id="", client_host="", subscribed_topic_names=()))

    def check_room(self) -> None:
        room = self._options().max_size
        if len(self.stored.members) >= room:
            raise GroupMaxSizeReachedError(
                f"group {self.id!r} has {len(self.stored.members)} members: group.consumer.max.size is {room}"
            )

    def _known(self, request: ConsumerGroupHeartbeatRequest) -> Member:
        """The member that says to be in an epoch."""
        member = self.identified(Identity(request.member_id, request.instance_id))
        current, said = member.current, request.member_epoch
        if said == current.epoch:
            self._confirmed[member.id] = said
            return member
        owned = owned_of(request)
        # The answer with the new epoch may be lost. If so the member has nothing it should not have. A member that has
        # named the new epoch got the answer: then this request is a late copy, which says what the member had once.
        lost = said == current.previous_epoch < current.epoch and self._confirmed.get(member.id) != current.epoch
        if lost and owned is not None and owned.issubset(current.assigned):
            return member
        raise FencedMemberEpochError(
            f"member {member.id!r} of group {self.id!r} is at epoch {current.epoch}, not at {said}: it has to give up "
            f"all partitions and join again"
        )

    def identified(self, who: Identity) -> Member:
        if who.instance_id is not None:
            member = self.stored.with_instance(who.instance_id)
            if member is None:
                raise UnknownMemberIdError(f"group {self.id!r} has no instance {who.instance_id!r}")
            if member.id != who.member_id:
                raise FencedInstanceIdError(
                    f"the instance {who.instance_id!r} is member {member.id!r} now, not {who.member_id!r}"
                )
            return member
        member = self.stored.members.get(who.member_id)
        if member is None:
            raise UnknownMemberIdError(f"group {self.id!r} has no member {who.member_id!r}")
        return member

    def _about(
        self, draft: Draft, member: Member, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> MemberValue:
        """The member as it is now: what the request leaves out stays. Whoever sends this speaks the new protocol."""
        old = member.about
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        if request.member_epoch == JOIN_EPOCH:
            names = () if names is None else names
            regex = regex or None
        elif regex is None:
            regex = old.subscribed_topic_regex
        if regex and regex not in draft.stored.regexes:
            compiled(regex)  # refuses a bad one
        timeout = request.rebalance_timeout_ms
        return MemberValue(
            instance_id=old.instance_id if request.instance_id is None else request.instance_id,
            rack_id=old.rack_id if request.rack_id is None else request.rack_id,
            client_id=client.id,
            client_host=client.host,
            subscribed_topic_names=old.subscribed_topic_names if names is None else sorted(set(names)),
            subscribed_topic_regex=regex or None,
            rebalance_timeout_ms=old.rebalance_timeout_ms if timeout == -1 else timeout,
            server_assignor=old.server_assignor if request.server_assignor is None else request.server_assignor,
        )

    def _answer(
        self, request: ConsumerGroupHeartbeatRequest, before: Member, after: Member
    ) -> ConsumerGroupHeartbeatResponse:
        """The answer has the assignment for a member that joins or sends all fields, and when it changed."""
        full = request.member_epoch == JOIN_EPOCH or (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        assignment = None
        if full or before.current.assigned.keys() != after.current.assigned.keys():
            assignment = Assignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=indexes)
                    for topic_id, indexes in by_topic(after.current.assigned).items()
                ]
            )
        return ConsumerGroupHeartbeatResponse(
            member_id=after.id,
            member_epoch=after.current.epoch,
            heartbeat_interval_ms=self._options().heartbeat_interval_ms,
            assignment=assignment,
        )

    # --- what a change brings about ---------------------------------------------------------------------------

    def advance(
        self,
        draft: Draft,
        member: Member,
        about: MemberValue,
        owned: TopicIdPartitions | None,
        now: Instant,
        sees: Sees | None = None,
    ) -> Member:
        """Take in what a member says of itself, assign anew if that is due, and take it one step towards its
        target. Without `sees` no regular expression is matched again."""
        stored = draft.stored
        if about != member.about or member.id not in stored.members:
            draft.add(Kind.MEMBER, member.id, about)
        # Epoch 0 is for who joins: a group whose first member subscribes to nothing leaves it as well.
        changed = stored.epoch == JOIN_EPOCH or _subscription(about) != _subscription(member.about)
        matched = self._resolve(draft, now, sees)
        if changed or self._stale:
            self._bump(draft, must=changed, matched=matched)
        self._assign(draft, now)
        current = stored.members[member.id].current
        if changed and current.state is MemberState.UNREVOKED_PARTITIONS:
            current = also_give_up(current, self._wanted(draft, member.id))
        moved = reconcile(
            current,
            stored.assignment_epoch,
            self._target_of(draft, member.id),
            owned,
            lambda place: stored.owners.get(place, member.id) == member.id,
        )
        before = stored.members[member.id].current
        if moved != before:
            draft.set_current(member.id, moved)
            self.history.moved(member.id, before, moved)
        return stored.members[member.id]

    def _resolve(self, draft: Draft, now: Instant, sees: Sees | None) -> bool:
        """Match a regular expression that is new, and all of them when topics changed, for who is there to see them;
        drop those nobody uses. Returns whether they are up to date."""
        stored = draft.stored
        used = {used for member in stored.members.values() if (used := member.about.subscribed_topic_regex)}
        for regex in sorted(stored.regexes.keys() - used):
            draft.add(Kind.REGEX, regex, None)
        up_to_date = True
        for regex in sorted(used):
            known = stored.regexes.get(regex)
            is_due = known is None or (self._stale and not 0 <= now.wall_ms - known.timestamp < REGEX_PAUSE_MS)
            if is_due and sees is not None:
                self._match(draft, regex, now, sees)
            else:
                up_to_date = up_to_date and not self._stale
        return up_to_date

    def _match(self, draft: Draft, regex: str, now: Instant, sees: Sees) -> None:
        try:
            matches = compiled(regex)
        except KafkaError:
            return  # another release wrote it into the log: it matches nothing here
        topics = sorted(name for name in self._topics.names() if matches(name) and sees(name))
        known = draft.stored.regexes.get(regex)
        if known is None or list(known.topics) != topics:
            draft.add(Kind.REGEX, regex, RegexValue(topics=topics, version=0, timestamp=now.wall_ms))

    def _bump(self, draft: Draft, *, must: bool, matched: bool) -> None:
        """Raise the group's epoch if it must, or if its topics are not those of the last time. Only when nothing is to
        be written, and everything was looked at, there is nothing left to notice."""
        stored = draft.stored
        metadata_hash = Subscriptions(stored.members, stored.resolved, self._topics).metadata_hash()
        if must or metadata_hash != stored.metadata_hash:
            draft.set_epoch(stored.epoch + 1, metadata_hash)
        elif matched and not draft.records:
            self._stale = False

    def behind(self, member: Member, now: Instant) -> bool:
        """Whether the member would come to another epoch now."""
        stored = self.stored
        due = stored.may_be_assigned(now.wall_ms, self._options().assignment_interval_ms)
        return due or member.current.epoch < stored.assignment_epoch

    def _assign(self, draft: Draft, now: Instant) -> None:
        stored, options = draft.stored, self._options()
        if not stored.may_be_assigned(now.wall_ms, options.assignment_interval_ms):
            return
        subscriptions = Subscriptions(stored.members, stored.resolved, self._topics)
        assignor = preferred_assignor(stored.members.values(), options.assignors)
        before = dict(stored.targets)
        targets = compute(stored.members, before, subscriptions, assignor)
        # Nothing is no assignment that the next one had to wait for.
        draft.set_targets(targets, stored.epoch, now.wall_ms if any(targets.values()) else 0)
        self.history.assigned(before, targets, self._name)

    def _name(self, place: TopicIdPartition) -> str:
        return f"{self._topics.name_of(place.topic_id) or place.topic_id}-{place.partition}"

    def _target_of(self, draft: Draft, id: str) -> TopicIdPartitions:
        """While a new target is due, topics that the member no longer subscribes to are none of its old one."""
        stored = draft.stored
        target = stored.targets.get(id, NOTHING)
        if stored.epoch == stored.assignment_epoch:
            return target
        wanted = self._wanted(draft, id)
        return frozenset(place for place in target if place.topic_id in wanted)

    def _wanted(self, draft: Draft, id: str) -> frozenset[UUID]:
        """The topics that a member subscribes to."""
        stored = draft.stored
        return Subscriptions({id: stored.members[id]}, stored.resolved, self._topics).ids_of(stored.members[id])

    # --- leaving ----------------------------------------------------------------------------------------------

    def _leave(self, request: ConsumerGroupHeartbeatRequest, to: Receiver, now: Instant) -> Step:
        member = self.identified(Identity(request.member_id, request.instance_id))
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            current = member.current
            draft = Draft(self.id, self.stored)
            draft.set_current(
                member.id, Current(STATIC_LEAVE_EPOCH, current.previous_epoch, current.state, current.assigned)
            )
            step = Step(list(draft.records))
            self.history.add(Event("left for a while", member.id, f"instance {request.instance_id}"))
        else:
            step = self.remove({member.id: "left"}, now)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=member.id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
        )
        step.answer(to, answer)
        return step

    def remove(self, reasons: dict[str, str], now: Instant) -> Step:
        """Members go, each for its reason. What they had is free when this is written."""
        draft = Draft(self.id, self.stored)
        for id, reason in sorted(reasons.items()):
            draft.remove(id)
            self.history.add(Event("removed", id, reason))
        self._resolve(draft, now, None)
        self._bump(draft, must=True, matched=False)
        return self._to_classic(draft.stored, now) or Step(list(draft.records))

    def _to_classic(self, left: Stored, now: Instant) -> Step | None:
        """The step that makes those who are left a classic group, where they are to be one."""
        return None if self._downgrade is None else self._downgrade(self, left, now)

    def on_time(self, now: Instant) -> Step:
        """Remove members that sent nothing, did not give up partitions, or did not join in time."""
        late: dict[str, str] = {}
        for id, until in self._sessions.items():
            if until <= now.ms:
                late[id] = "no heartbeat within the session timeout"
        for id, (until, current) in self._revoke_by.items():
            member = self.stored.members.get(id)
            if until <= now.ms and member is not None and member.current == current:
                late.setdefault(id, "did not give up its partitions within the rebalance timeout")
        # Who could not be written down when it joined is no member.
        self.join_by = {id: until for id, until in self.join_by.items() if id in self.stored.members}
        for id, until in self.join_by.items():
            if until <= now.ms:
                late.setdefault(id, "did not join or sync within the rebalance timeout")
        late = {id: reason for id, reason in late.items() if id in self.stored.members}
        step = self.remove(late, now) if late else Step()
        # Members that could not be removed, because nothing can be written now, are tried again later.
        for id in late:
            self.alive(self.stored.members[id], now)
            self._revoke_by.pop(id, None)
            self.join_by.pop(id, None)
            self._unsettled.add(id)
            self._settled = False
        self._due = self.deadline
        return step

    def alive(self, member: Member, now: Instant) -> None:
        """The member sent a request: its session begins anew."""
        classic = member.about.classic
        session_ms = self._options().session_timeout_ms if classic is None else classic.session_timeout_ms
        self._sessions[member.id] = self.by(now.ms + session_ms)

    def by(self, time_ms: int) -> int:
        """Something is due by then."""
        self._due = time_ms if self._due is None else min(self._due, time_ms)
        return time_ms

    # --- offsets ----------------------------------------------------------------------------------------------

    def check_commit(
        self,
        who: Identity,
        generation: int,
        now: Instant,
        *,
        version: int = EPOCH_COMMITS_FROM,
        transactional: bool = False,
        places: Callable[[], Iterable[TopicIdPartition]] = tuple,
    ) -> None:
        """Raise unless these offsets may be committed. Clients that name no epoch may while there are no members; in a
        transaction always, if it names no member either."""
        if generation < 0 and (not self.stored.members or (transactional and not who.member_id)):
            return
        member = self.identified(who)
        if not member.is_classic and version < EPOCH_COMMITS_FROM and not transactional:
            raise UnsupportedVersionError(
                f"member {member.id!r} uses the consumer protocol and commits with version {EPOCH_COMMITS_FROM} of "
                f"OffsetCommit or a later one, not with {version}"
            )
        self._check_epoch(member, generation, transactional, places)

    def _check_epoch(
        self, member: Member, said: int, transactional: bool, places: Callable[[], Iterable[TopicIdPartition]]
    ) -> None:
        """An older epoch is fine for partitions that the member has had ever since."""
        current = member.current
        if said == current.epoch:
            return
        if said < current.epoch and not member.is_classic:
            held = {**current.pending, **current.assigned}
            if all(place in held and held[place] <= said for place in places()):
                return
        stale = IllegalGenerationError if member.is_classic or transactional else StaleMemberEpochError
        raise stale(f"member {member.id!r} of group {self.id!r} is at epoch {current.epoch}, not at {said}")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise unless this member may ask for offsets; who says to be no member always may."""
        if member_id is None and epoch < 0:
            return
        member = self.identified(Identity(member_id or ""))
        if epoch != member.current.epoch:
            stale = IllegalGenerationError if member.is_classic else StaleMemberEpochError
            raise stale(f"member {member.id!r} of group {self.id!r} is at epoch {member.current.epoch}, not at {epoch}")


ToClassic = Callable[[ConsumerGroup, Stored, Instant], Step | None]


def _subscription(about: MemberValue) -> tuple[frozenset[str], str]:
    return frozenset(about.subscribed_topic_names), about.subscribed_topic_regex or ""
