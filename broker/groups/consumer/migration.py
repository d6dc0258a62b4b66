"""Converts a group with members from the classic to the consumer protocol and back.

The first member that speaks the new protocol converts the group. Members of the classic protocol stay in it: to them
the member epoch is the generation, the coordinator leads, and a rebalance is asked for by the heartbeat as ever. When
the last member of the new protocol is gone, the rest become a classic group again.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.broker.groups.consumer.member import (
    NOTHING,
    Current,
    Member,
    MemberState,
    TopicIdPartition,
    TopicIdPartitions,
    by_topic,
)
from rookery.broker.groups.consumer.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    Kind,
    MemberValue,
)
from rookery.broker.groups.consumer.request import Client
from rookery.broker.groups.consumer.stored import Draft, Stored, tombstones
from rookery.broker.groups.consumer.target import NO_HASH, Topics
from rookery.broker.groups.group import Group
from rookery.broker.groups.group_state import GroupOptions
from rookery.broker.groups.history import Event, departure
from rookery.broker.groups.joining import Join, not_joined
from rookery.broker.groups.members import Identity, Protocols
from rookery.broker.groups.members import Member as ClassicMember
from rookery.broker.groups.records import GroupMetadataValue, GroupRecord, MemberMetadata
from rookery.broker.groups.step import Instant, Receiver, Step
from rookery.core.errors import (
    ErrorCode,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from rookery.core.wire.apis.join_group import JoinGroupResponse
from rookery.core.wire.apis.leave_group import MemberIdentity, MemberResponse
from rookery.core.wire.apis.sync_group import SyncGroupRequest, SyncGroupResponse
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

# --- to the consumer protocol ---------------------------------------------------------------------------------


def upgraded(group: Group, options: GroupOptions, topics: Topics) -> Draft:
    """The records that make a classic group with members one of the consumer protocol. Raises GroupIdNotFoundError with
    the reason where that cannot be."""
    consumer = options.consumer
    if "upgrade" not in consumer.migrations:
        raise _stays(group, "group.consumer.migration.policy does not allow it to change while it has members")
    if group.protocol_type != CONSUMER:
        raise _stays(group, f"its protocol type is {group.protocol_type!r}")
    if len(group.members) > consumer.max_size:
        raise _stays(group, f"it has {len(group.members)} members, and group.consumer.max.size is {consumer.max_size}")
    draft = Draft(group.id, Stored())
    try:
        converted = [_converted(group, member, topics) for member in group.members]
    except WireError as error:
        raise _stays(group, f"what its members say is not that of consumers: {error}") from None
    for id, about, _ in converted:
        draft.add(Kind.MEMBER, id, about)
    draft.set_epoch(group.generation, NO_HASH)
    owners: set[TopicIdPartition] = set()
    held = {}
    for id, _, places in converted:
        held[id] = places - owners  # members that assign themselves may be wrong; one of them has to give up
        owners |= places
    draft.set_targets(held, group.generation, 0)
    for id, places in held.items():
        assigned = dict.fromkeys(sorted(places), group.generation)
        draft.set_current(id, Current(group.generation, group.generation, MemberState.STABLE, assigned))
    return draft


def _stays(group: Group, why: str) -> GroupIdNotFoundError:
    return GroupIdNotFoundError(f"group {group.id!r} has members of the classic protocol and stays so: {why}")


def _converted(group: Group, member: ClassicMember, topics: Topics) -> tuple[str, MemberValue, TopicIdPartitions]:
    protocols = member.protocols
    raw = member.metadata(group.protocol) or protocols[0][1]
    subscription = from_bytes(SUBSCRIPTION, raw)
    about = _about(
        subscription, member.instance_id, Client(member.client_id, member.client_host), member.session_timeout_ms,
        member.rebalance_timeout_ms, protocols,
    )  # fmt: skip
    if not member.assignment:
        return member.id, about, _places(subscription.owned_partitions, topics)
    assignment = from_bytes(ASSIGNMENT, member.assignment)
    if assignment.user_data:
        raise _stays(group, "its assignor keeps data of its own in assignments")
    return member.id, about, _places(assignment.assigned_partitions, topics)


def _about(
    subscription: Subscription,
    instance_id: str | None,
    client: Client,
    session_ms: int,
    rebalance_ms: int,
    protocols: Protocols,
) -> MemberValue:
    return MemberValue(
        instance_id=instance_id,
        rack_id=subscription.rack_id,
        client_id=client.id,
        client_host=client.host,
        subscribed_topic_names=sorted(set(subscription.topics)),
        rebalance_timeout_ms=rebalance_ms,
        classic=ClassicMemberMetadata(
            session_timeout_ms=session_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        ),
    )


def _places(given: Iterable[TopicPartitions], topics: Topics) -> TopicIdPartitions:
    """Of topics that are there."""
    return frozenset(
        TopicIdPartition(info.id, index)
        for topic in given
        if (info := topics.topic(topic.topic)) is not None
        for index in topic.partitions
    )


# --- and back -------------------------------------------------------------------------------------------------


def downgraded(group: ConsumerGroup, left: Stored, options: GroupOptions, now: Instant) -> Step | None:
    """The step that makes the members which are `left` a classic group, if all of them speak that protocol and they
    may; None where the group stays as it is."""
    members = list(left.members.values())
    if not members or not all(member.is_classic for member in members):
        return None
    if "downgrade" not in options.consumer.migrations or len(members) > options.max_size:
        return None
    speakers = group_protocols(members)
    common = [name for name in speakers[0] if all(name in names for names in speakers)]
    if not common:
        return None
    value = GroupMetadataValue(
        protocol_type=CONSUMER,
        generation=group.stored.epoch,
        protocol=common[0],
        leader=None,  # so that whoever reads this begins the rebalance that is due
        current_state_timestamp=now.wall_ms,
        members=[_stored(member, common[0], group.topics) for member in members],
    )
    group.history.add(Event("downgraded", "", f"{len(members)} members of the classic protocol are left"))
    return Step([*tombstones(group.id, group.stored), GroupRecord(group.id, value)])


def group_protocols(members: Iterable[Member]) -> list[list[str]]:
    return [
        [protocol.name for protocol in member.about.classic.supported_protocols]
        for member in members
        if member.about.classic is not None
    ]


def _stored(member: Member, protocol: str, topics: Topics) -> MemberMetadata:
    """With what it may still have, not with what was meant for it: a group that changes again before the member has
    joined must not take that for free."""
    classic = member.about.classic
    if classic is None:
        raise RuntimeError(f"member {member.id!r} does not speak the classic protocol")
    metadata = next(each.metadata for each in classic.supported_protocols if each.name == protocol)
    return MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.about.client_id,
        client_host=member.about.client_host,
        rebalance_timeout=member.about.rebalance_timeout_ms,
        session_timeout=classic.session_timeout_ms,
        subscription=metadata,
        assignment=_assignment({*member.current.assigned, *member.current.pending}, metadata, topics),
    )


def _assignment(places: Iterable[TopicIdPartition], metadata: bytes, topics: Topics) -> bytes:
    """In the version in which the member speaks."""
    named: list[tuple[str, UUID, list[int]]] = [
        (name, topic_id, indexes)
        for topic_id, indexes in by_topic(places).items()
        if (name := topics.name_of(topic_id)) is not None
    ]
    version = min(int.from_bytes(metadata[:2], "big"), ASSIGNMENT.max_version)
    assigned = [TopicPartitions(topic=name, partitions=indexes) for name, _, indexes in named]
    return to_bytes(ASSIGNMENT, version, Assignment(assigned_partitions=assigned))


# --- members of the classic protocol in a group of the consumer protocol ---------------------------------------


class ClassicMembers:
    """What JoinGroup, SyncGroup, Heartbeat and LeaveGroup do in a group of the consumer protocol."""

    def __init__(self, group: ConsumerGroup, options: GroupOptions) -> None:
        self._group = group
        self._options = options

    def join(self, join: Join, new_id: str, now: Instant) -> Step:
        """JoinGroup: answered at once, with the member's epoch as generation. Raises KafkaError."""
        group, step = self._group, Step()
        self._check_protocols(join)
        if not join.member_id and join.instance_id is None and join.needs_known_id:
            step.answer(join.to, not_joined(new_id, ErrorCode.MEMBER_ID_REQUIRED))
            return step
        try:
            subscription = from_bytes(SUBSCRIPTION, join.protocols[0][1])
        except WireError as error:
            raise InconsistentGroupProtocolError(f"the subscription cannot be read: {error}") from None
        draft = Draft(group.id, group.stored)
        before = self._member(draft, join, new_id)
        about = _about(
            subscription, join.instance_id, Client(join.client_id, join.client_host), join.session_timeout_ms,
            join.rebalance_timeout_ms, join.protocols,
        )  # fmt: skip
        after = group.advance(draft, before, about, _places(subscription.owned_partitions, group.topics), now)
        if before.id in group.members:
            group.alive(after, now)
        group.join_by[after.id] = group.by(now.ms + join.rebalance_timeout_ms)
        step.records += draft.records
        response = JoinGroupResponse(
            generation_id=after.current.epoch,
            protocol_type=CONSUMER,
            protocol_name=join.protocols[0][0],
            leader="",
            member_id=after.id,
            members=[],
        )
        back = downgraded(group, draft.stored, self._options, now)
        if back is not None:
            # It replaced the last member of the new protocol. It joins again, then in the classic group.
            back.answer(join.to, not_joined(join.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
            return back
        step.answer(join.to, response)
        return step

    def _check_protocols(self, join: Join) -> None:
        group, names = self._group, {name for name, _ in join.protocols}
        classic = [member for member in group.members.values() if member.is_classic]
        common = all(any(name in names for name in spoken) for spoken in group_protocols(classic))
        shared = set(names).intersection(*map(set, group_protocols(classic))) if classic else names
        if join.protocol_type != CONSUMER or not shared or not common or not self._options.consumer.migrations:
            raise InconsistentGroupProtocolError(
                f"group {group.id!r} uses the consumer protocol; a member of type {join.protocol_type!r} with "
                f"{sorted(names)} cannot join it (group.consumer.migration.policy, or set group.protocol=consumer)"
            )

    def _member(self, draft: Draft, join: Join, new_id: str) -> Member:
        group = self._group
        static = None if join.instance_id is None else group.stored.with_instance(join.instance_id)
        if static is not None and not join.member_id:
            draft.rename(static, new_id)
            group.history.add(Event("returned", new_id, f"as instance {join.instance_id}, classic protocol"))
            return draft.stored.members[new_id]
        if static is not None or (join.instance_id is not None and join.member_id):
            return group.identified(Identity(join.member_id, join.instance_id))
        known = group.members.get(join.member_id)
        if known is not None:
            return known
        group.check_room()
        id = join.member_id or new_id
        group.history.add(Event("joined", id, f"{join.client_id}, classic protocol"))
        return Member(id, MemberValue(client_id="", client_host="", subscribed_topic_names=()))

    def _classic(self, who: Identity) -> Member:
        member = self._group.identified(who)
        if not member.is_classic:
            raise UnknownMemberIdError(f"member {member.id!r} uses the consumer protocol")
        return member

    def _current(self, who: Identity, generation: int) -> Member:
        member = self._classic(who)
        if member.current.epoch != generation:
            raise IllegalGenerationError(
                f"member {member.id!r} of group {self._group.id!r} is at {member.current.epoch}, not at {generation}"
            )
        return member

    def _asked_to_join(self, member: Member, now: Instant) -> RebalanceInProgressError:
        """From now on it has the rebalance timeout to join again."""
        group = self._group
        if member.id not in group.join_by:
            group.join_by[member.id] = group.by(now.ms + max(member.about.rebalance_timeout_ms, 0))
        return RebalanceInProgressError(f"group {group.id!r} rebalances: member {member.id!r} has to join again")

    def sync(self, request: SyncGroupRequest, to: Receiver, now: Instant) -> Step:
        """SyncGroup: what the member may read now. Raises KafkaError."""
        group = self._group
        member = self._current(Identity(request.member_id, request.group_instance_id), request.generation_id)
        classic = member.about.classic
        if classic is None:
            raise UnknownMemberIdError(f"member {member.id!r} uses the consumer protocol")
        first = classic.supported_protocols[0]
        for said, known in ((request.protocol_type, CONSUMER), (request.protocol_name, first.name)):
            if said is not None and said != known:
                raise InconsistentGroupProtocolError(f"group {group.id!r} agreed on {known!r}, not on {said!r}")
        gives_up = member.current.state is MemberState.UNREVOKED_PARTITIONS
        if group.behind(member, now) and not gives_up:
            raise self._asked_to_join(member, now)
        group.join_by.pop(member.id, None)
        group.alive(member, now)
        step = Step()
        step.answer(
            to,
            SyncGroupResponse(
                protocol_type=CONSUMER,
                protocol_name=first.name,
                assignment=_assignment(member.current.assigned, first.metadata, group.topics),
            ),
        )
        return step

    def heartbeat(self, who: Identity, generation: int, now: Instant) -> None:
        """Heartbeat. Raises RebalanceInProgressError where the member has to join again."""
        group = self._group
        member = self._current(who, generation)
        group.alive(member, now)
        current = member.current
        waits = current.state is MemberState.UNRELEASED_PARTITIONS and not self._released(member)
        if current.state is MemberState.UNREVOKED_PARTITIONS or group.behind(member, now) or (
            current.state is MemberState.UNRELEASED_PARTITIONS and not waits
        ):
            raise self._asked_to_join(member, now)

    def _released(self, member: Member) -> bool:
        """Whether some of what the member waits for is free by now."""
        stored = self._group.stored
        missing = stored.targets.get(member.id, NOTHING).difference(member.current.assigned)
        return any(place not in stored.owners for place in missing)

    def leave(self, leaving: Sequence[MemberIdentity], now: Instant) -> tuple[Step, list[MemberResponse]]:
        """LeaveGroup: each member is answered by itself."""
        group, gone, answers = self._group, {}, []
        for each in leaving:
            error = ErrorCode.NONE
            try:
                member_id = each.member_id
                static = None if each.group_instance_id is None else group.stored.with_instance(each.group_instance_id)
                if not member_id and static is not None:
                    member_id = static.id
                gone[self._classic(Identity(member_id, each.group_instance_id)).id] = departure(each.reason)
            except KafkaError as refusal:
                error = refusal.code
            answers.append(
                MemberResponse(
                    member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error
                )
            )
        return (group.remove(gone, now) if gone else Step()), answers
