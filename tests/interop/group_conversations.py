"""Random members of one group that ask two brokers the same, one request after the other, and compare the answers.

What docs/differences.md names is left out: a static member joins again only after it has left, a request in the epoch
before comes only while the answer with the new one may be lost, and the group has a member from the beginning to the
end, since Kafka begins to count its epochs at two where the first member subscribes to something.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any
from uuid import UUID

from rookery.core.errors import ErrorCode
from rookery.core.net.connection import Connection
from rookery.core.wire.apis import consumer_group_describe as describe
from rookery.core.wire.apis import consumer_group_heartbeat as beat
from rookery.core.wire.apis import (
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from rookery.core.wire.consumer_protocol import ASSIGNMENT, SUBSCRIPTION, Subscription, from_bytes, to_bytes

TOPICS = {"a": 4, "b": 2, "c": 3}
SUBSCRIPTIONS: tuple[list[str], ...] = (["a"], ["a"], ["a", "b"], ["b"], ["a", "b", "c"], [])
PATIENCE_S = 20.0
OUT = {"FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}
Place = tuple[str, int]


class Side:
    """One of the brokers."""

    def __init__(self, connection: Connection, ids: dict[str, UUID]) -> None:
        self.connection = connection
        self.ids = ids
        self._names = {id: name for name, id in ids.items()}
        self.classic_id = ""

    async def ask(self, api: Any, version: int, request: Any) -> Any:
        return await self.connection.request(api, version, request, PATIENCE_S)

    def topics(self, places: Iterable[Place]) -> list[beat.TopicPartitions]:
        named: dict[str, list[int]] = {}
        for topic, index in sorted(places):
            named.setdefault(topic, []).append(index)
        return [beat.TopicPartitions(topic_id=self.ids[name], partitions=found) for name, found in named.items()]

    def places(self, assignment: Any) -> list[Place]:
        topics = assignment.topic_partitions
        return sorted((self._names[each.topic_id], index) for each in topics for index in each.partitions)

    def alias(self, member_id: str) -> str:
        """Brokers make up the ids of classic members."""
        return "classic" if member_id == self.classic_id else member_id


class Member:
    def __init__(self, id: str, instance: str | None = None) -> None:
        self.id, self.instance = id, instance
        self.topics: list[str] = []
        self.forget()

    def forget(self) -> None:
        self.epoch = self.before = 0
        self.owned: list[Place] = []
        self.given: list[Place] | None = None
        self.must_leave = False

    def take(self) -> None:
        self.owned = self.owned if self.given is None else self.given


class Conversation:
    """`run` raises AssertionError at the first answer that differs, with all that was asked."""

    def __init__(self, sides: list[Side], group: str, seed: int) -> None:
        self._sides = sides
        self._group = group
        self._random = Random(seed)
        self._members = [*map(Member, ("m0", "m1", "m2")), *map(Member, ("s0", "s1", "s2"), ("i0", "i1", "i0"))]
        self._generation = -1
        self._said: list[str] = []
        self.answers: Counter[str] = Counter()

    async def run(self, steps: int) -> None:
        for side in self._sides:
            side.classic_id = ""
        await self._beat(Member("first"), 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[], owned=[])
        rare = [self._commit, self._fetch, self._classic]
        for _ in range(steps):
            await self._random.choice([self._member] * 10 + rare * 2 + [self._look] * 3)()

    async def _both(self, what: str, ask: Callable[[Side], Awaitable[Any]], see: Callable[[Side, Any], Any]) -> Any:
        theirs, ours = [see(side, await ask(side)) for side in self._sides]
        self._said.append(f"{what}: {theirs}")
        code = theirs if isinstance(theirs, str) else theirs[0]
        self.answers[f"{what.split()[0]} {code}"] += 1
        assert ours == theirs, "\n".join([*self._said, f"ours is {ours}"])
        return theirs

    # --- members ----------------------------------------------------------------------------------------------

    async def _beat(self, member: Member, epoch: int, owned: list[Place] | None = None, **more: Any) -> str:
        def ask(side: Side) -> Awaitable[Any]:
            request = beat.ConsumerGroupHeartbeatRequest(
                group_id=self._group, member_id=member.id, member_epoch=epoch, instance_id=member.instance,
                topic_partitions=None if owned is None else side.topics(owned),
                server_assignor="range" if epoch == 0 else None, **more,
            )  # fmt: skip
            return side.ask(beat.CONSUMER_GROUP_HEARTBEAT, 1, request)

        def see(side: Side, answer: Any) -> Any:
            given = None if answer.assignment is None else side.places(answer.assignment)
            return ErrorCode(answer.error_code).name, answer.member_id, answer.member_epoch, given

        code, _, now, given = await self._both(f"heartbeat of {member.id} in {epoch} with {owned}, {more}", ask, see)
        if code in OUT or (code == "NONE" and epoch < 0):
            member.forget()
            member.must_leave = code == "FENCED_MEMBER_EPOCH" and member.instance is not None
        elif code == "NONE":
            member.before = member.epoch if now != member.epoch else 0  # named the present one, or had it before
            member.epoch = now
            member.given = member.given if given is None else given
        return str(code)

    async def _member(self) -> None:
        member = self._random.choice(self._members)
        if member.must_leave:
            await self._beat(member, -2)
        elif member.epoch:
            await self._stay(member)
        elif self._random.random() < 0.1:
            await self._beat(member, self._random.choice([1, 5, -1]))
        else:
            member.topics = self._random.choice(SUBSCRIPTIONS)
            await self._join(member)

    async def _join(self, member: Member) -> None:
        await self._beat(member, 0, [], rebalance_timeout_ms=60_000, subscribed_topic_names=member.topics)
        member.take()

    async def _stay(self, member: Member) -> None:
        random, epoch, chance = self._random, member.epoch, self._random.random()
        if chance < 0.4:
            member.take()
            await self._beat(member, epoch, member.owned)
        elif chance < 0.55:
            await self._beat(member, epoch)
        elif chance < 0.65:
            member.topics = random.choice(SUBSCRIPTIONS)
            await self._beat(member, epoch, subscribed_topic_names=member.topics)
        elif chance < 0.7:
            await self._beat(member, epoch, random.sample(member.owned, len(member.owned) // 2))
        elif chance < 0.75 and member.before:
            await self._beat(member, member.before, member.owned)
        elif chance < 0.78:
            await self._beat(member, epoch + random.choice([1, 3]), random.choice([None, member.owned]))
        elif chance < 0.85:
            everything = {"rebalance_timeout_ms": 50_000, "subscribed_topic_names": member.topics}
            await self._beat(member, epoch, member.owned, **everything)
        elif chance < 0.95:
            await self._beat(member, -2 if member.instance and random.random() < 0.7 else -1)
        elif member.instance is None:
            await self._join(member)

    async def _classic(self) -> None:
        """A static member of the classic protocol."""
        known, chance = self._sides[0].classic_id, self._random.random()
        group = self._group
        if not known or chance < 0.3:
            metadata = to_bytes(SUBSCRIPTION, 1, Subscription(topics=["a"], owned_partitions=[], generation_id=-1))
            protocols = [join_group.JoinGroupRequestProtocol(name="range", metadata=metadata)]

            def join(side: Side) -> Awaitable[Any]:
                request = join_group.JoinGroupRequest(
                    group_id=group, session_timeout_ms=30_000, rebalance_timeout_ms=60_000, member_id=side.classic_id,
                    group_instance_id="classic", protocol_type="consumer", protocols=protocols,
                )  # fmt: skip
                return side.ask(join_group.JOIN_GROUP, 7, request)

            def joined(side: Side, answer: Any) -> Any:
                side.classic_id = answer.member_id if answer.error_code == 0 else ""
                name = answer.protocol_name or ""
                return ErrorCode(answer.error_code).name, answer.generation_id, name, answer.leader

            _, self._generation, *_ = await self._both("join", join, joined)
        elif chance < 0.6:
            def sync(side: Side) -> Awaitable[Any]:
                request = sync_group.SyncGroupRequest(
                    group_id=group, generation_id=self._generation, member_id=side.classic_id,
                    group_instance_id="classic", assignments=[],
                )  # fmt: skip
                return side.ask(sync_group.SYNC_GROUP, 4, request)

            def synced(_: Side, answer: Any) -> Any:
                given = from_bytes(ASSIGNMENT, answer.assignment).assigned_partitions if answer.assignment else []
                return ErrorCode(answer.error_code).name, [(each.topic, sorted(each.partitions)) for each in given]

            await self._both("sync", sync, synced)
        elif chance < 0.9:
            def alive(side: Side) -> Awaitable[Any]:
                request = heartbeat.HeartbeatRequest(
                    group_id=group, generation_id=self._generation, member_id=side.classic_id,
                    group_instance_id="classic",
                )  # fmt: skip
                return side.ask(heartbeat.HEARTBEAT, 3, request)

            await self._both("beat", alive, lambda _, answer: ErrorCode(answer.error_code).name)
        else:
            def leave(side: Side) -> Awaitable[Any]:
                who = leave_group.MemberIdentity(member_id=side.classic_id, group_instance_id="classic")
                request = leave_group.LeaveGroupRequest(group_id=group, members=[who])
                return side.ask(leave_group.LEAVE_GROUP, 4, request)

            await self._both("leave", leave, lambda _, answer: ErrorCode(answer.members[0].error_code).name)
            for side in self._sides:
                side.classic_id = ""

    # --- offsets ----------------------------------------------------------------------------------------------

    async def _commit(self) -> None:
        random = self._random
        member, version = random.choice(self._members), random.choice([8, 9, 9, 10])
        epochs = [member.epoch, member.epoch, member.epoch + 1, -1]
        epoch = random.choice(epochs if member.instance else [*epochs, max(member.epoch - 1, -1)])
        id, offset = random.choice([member.id, member.id, member.id, ""]), random.randrange(1000)
        topic = random.choice(sorted(TOPICS))
        place = random.choice([(topic, random.randrange(TOPICS[topic])), *member.owned])

        def ask(side: Side) -> Awaitable[Any]:
            named = {"topic_id": side.ids[place[0]]} if version >= 10 else {"name": place[0]}
            partition = offset_commit.OffsetCommitRequestPartition(partition_index=place[1], committed_offset=offset)
            request = offset_commit.OffsetCommitRequest(
                group_id=self._group, generation_id_or_member_epoch=epoch, member_id=id,
                topics=[offset_commit.OffsetCommitRequestTopic(partitions=[partition], **named)],
            )  # fmt: skip
            return side.ask(offset_commit.OFFSET_COMMIT, version, request)

        def see(_: Side, answer: Any) -> Any:
            return ErrorCode(answer.topics[0].partitions[0].error_code).name

        await self._both(f"commit {version} of {id} in {epoch} at {place}", ask, see)

    async def _fetch(self) -> None:
        random, member = self._random, self._random.choice(self._members)
        version, id = random.choice([8, 9, 9, 10]), random.choice([member.id, member.id, None])
        epoch = -1 if id is None else random.choice([member.epoch, member.epoch, -1, member.epoch + 1])

        def ask(side: Side) -> Awaitable[Any]:
            named = [{"topic_id": side.ids[name]} if version >= 10 else {"name": name} for name in TOPICS]
            who: dict[str, Any] = {"member_id": id, "member_epoch": epoch} if version >= 9 else {}
            topics = [offset_fetch.OffsetFetchRequestTopics(partition_indexes=[0, 1], **each) for each in named]
            group = offset_fetch.OffsetFetchRequestGroup(group_id=self._group, topics=topics, **who)
            return side.ask(offset_fetch.OFFSET_FETCH, version, offset_fetch.OffsetFetchRequest(groups=[group]))

        def see(_: Side, answer: Any) -> Any:
            (group,) = answer.groups
            found = [(each.committed_offset, each.error_code) for topic in group.topics for each in topic.partitions]
            return ErrorCode(group.error_code).name, found

        await self._both(f"fetch {version} of {id} in {epoch}", ask, see)

    # --- administrators ---------------------------------------------------------------------------------------

    async def _look(self) -> None:
        await self._random.choice([self._describe, self._describe, self._list, self._delete_offsets])()

    async def _describe(self) -> None:
        def ask(side: Side) -> Awaitable[Any]:
            request = describe.ConsumerGroupDescribeRequest(
                group_ids=[self._group], include_authorized_operations=False
            )
            return side.ask(describe.CONSUMER_GROUP_DESCRIBE, 1, request)

        def see(side: Side, answer: Any) -> Any:
            (group,) = answer.groups
            members = sorted(
                (side.alias(each.member_id), each.instance_id, each.member_epoch, list(each.subscribed_topic_names),
                 side.places(each.assignment), side.places(each.target_assignment), each.member_type)
                for each in group.members
            )  # fmt: skip
            epochs = group.group_epoch, group.assignment_epoch
            return ErrorCode(group.error_code).name, group.group_state, epochs, members

        await self._both("describe", ask, see)

    async def _list(self) -> None:
        kinds = self._random.choice([[], ["Consumer"], ["classic"], ["bogus"]])
        states = self._random.choice([[], ["stable"], ["Reconciling"], ["assigning"]])

        def ask(side: Side) -> Awaitable[Any]:
            request = list_groups.ListGroupsRequest(states_filter=states, types_filter=kinds)
            return side.ask(list_groups.LIST_GROUPS, 5, request)

        def see(_: Side, answer: Any) -> Any:
            found = [(each.group_state, each.group_type) for each in answer.groups if each.group_id == self._group]
            return ErrorCode(answer.error_code).name, found

        await self._both(f"list {kinds} {states}", ask, see)

    async def _delete_offsets(self) -> None:
        partition = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
        topic = offset_delete.OffsetDeleteRequestTopic(name=self._random.choice(sorted(TOPICS)), partitions=[partition])

        def ask(side: Side) -> Awaitable[Any]:
            return side.ask(
                offset_delete.OFFSET_DELETE, 0, offset_delete.OffsetDeleteRequest(group_id=self._group, topics=[topic])
            )

        def see(_: Side, answer: Any) -> Any:
            codes = [answer.error_code, *(each.error_code for found in answer.topics for each in found.partitions)]
            return ErrorCode(codes[0]).name, codes

        await self._both(f"forget {topic.name}", ask, see)
