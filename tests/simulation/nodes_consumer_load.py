"""The load of a seed of consumer groups: members, who has what, and what the committed records say of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rookery.broker.groups.consumer.records import ConsumerRecord, Kind
from rookery.broker.groups.records import decode
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.core.errors import ErrorCode
from rookery.core.net.connection import Connection
from rookery.core.testing.hosts import HostNetwork
from rookery.core.wire.apis.offset_commit import OFFSET_COMMIT
from rookery.core.wire.records import batches, read_records
from tests.simulation.controller_rules import require
from tests.simulation.nodes_clients import Failed
from tests.simulation.nodes_consumers import Member
from tests.simulation.nodes_groups import Commits
from tests.simulation.nodes_host import KAFKA
from tests.simulation.nodes_kinds import kept_topic

if TYPE_CHECKING:
    from tests.simulation.nodes_host import Place
    from tests.simulation.nodes_swarm import ConsumerPlan, TopicPlan
    from tests.simulation.nodes_world import World

GROUP_TOPIC = "__consumer_offsets"
READ_BYTES = 1 << 20
SETTLED_S = 2.0


class StoredGroup:
    """What committed records say of one group of the consumer protocol."""

    def __init__(self) -> None:
        self.epoch = -1
        self.assignment_epoch = -1
        self.epochs: dict[str, int] = {}
        self.held: dict[str, set[tuple[UUID, int]]] = {}

    def take(self, record: Any) -> None:
        kind, group, item, value = record
        if kind is Kind.GROUP:
            if value is None:
                self.__init__()  # type: ignore[misc]
                return
            require(value.epoch >= self.epoch, "G1", f"{group}: epoch {value.epoch} after {self.epoch}")
            self.epoch = value.epoch
        elif kind is Kind.TARGET and value is not None:
            later = value.assignment_epoch >= self.assignment_epoch
            require(later, "G1", f"{group}: target {value.assignment_epoch} after {self.assignment_epoch}")
            self.assignment_epoch = value.assignment_epoch
        elif kind is Kind.CURRENT:
            self._member(group, item, value)

    def _member(self, group: str, id: str, value: Any) -> None:
        if value is None:
            self.epochs.pop(id, None)
            self.held.pop(id, None)
            return
        before = self.epochs.get(id, -2)
        kept = value.member_epoch >= before or value.member_epoch <= 0
        require(kept, "G1", f"{group}: member {id} is in epoch {value.member_epoch} after {before}")
        self.epochs[id] = value.member_epoch
        self.held[id] = {
            (each.topic_id, index)
            for part in (value.assigned_partitions, value.partitions_pending_revocation)
            for each in part
            for index in each.partitions
        }

    def check(self, group: str) -> None:
        """G2: each partition has one member at most."""
        owners: dict[tuple[UUID, int], str] = {}
        for id, held in self.held.items():
            for place in held:
                other = owners.setdefault(place, id)
                require(other == id, "G2", f"{group}: {place} is stored for {other} and {id}")


class ConsumerLoad:
    """Everything about one group in one simulation."""

    group = "consumers"

    def __init__(self, world: World, plan: ConsumerPlan) -> None:
        self.world = world
        self.plan = plan
        self.topics = [f"c{number}" for number in range(plan.topics)]
        self.commits = Commits(world)
        self.members: list[Member] = []
        self.owners: dict[Place, Member] = {}
        self.closing = False
        self._next: dict[Place, int] = {}
        self._stored: dict[str, StoredGroup] = {}
        self._names: dict[UUID, str] = {}

    def plans(self) -> dict[str, TopicPlan]:
        return {name: kept_topic(self.world.swarm, self.plan.partitions, 3000) for name in self.topics}

    def hook(self, around: Callable[..., None]) -> None:
        around(PartitionLog, "advance_high_watermark", after=lambda _, log, *rest: self._committed(log))

    def start(self) -> None:
        for number in range(self.plan.members):
            instance = f"i{number}" if number < self.plan.static else None
            self.members.append(Member(self, f"c{number}", instance))

    def places(self) -> list[Place]:
        return [place for place in self.world.places() if place.topic in self.topics]

    def name_of(self, topic_id: UUID) -> str:
        for place in self.places():
            self._names[place.id] = place.topic
        return self._names[topic_id]

    def coordinators(self) -> tuple[int, ...]:
        """Changes whenever somebody else may coordinate."""
        topic = self.world.image.topic(GROUP_TOPIC)
        return tuple(p.leader_epoch for _, p in topic.in_order()) if topic is not None else ()

    # --- who has what ----------------------------------------------------------------------------------------

    def takes(self, member: Member, places: set[Place]) -> None:
        """G2: what a member begins to have nobody else has."""
        for place in sorted(places):
            owner = self.owners.get(place)
            if owner is not None and owner is not member:
                owner.gives_up_by_time()
                owner = self.owners.get(place)
            what = f"{place} is given to {member.name} ({member.id}) while"
            require(owner is None or owner is member, "G2", what, owner.name if owner else "", "has it")
            self.owners[place] = member
            member.owned.add(place)
            self.world.trace("owns", member.name, place)
            self.world.oracles.count("taken")

    def gives_up(self, member: Member, places: set[Place]) -> None:
        for place in sorted(places & member.owned):
            member.owned.discard(place)
            self.owners.pop(place, None)
            self.world.trace("gives up", member.name, place)

    # --- copies ----------------------------------------------------------------------------------------------

    def send_copy(self, node: int, api: Any, version: int, request: Any, delay_s: float) -> asyncio.Task[Any]:
        return self.world.loop.create_task(self._copy(node, api, version, request, delay_s), name="copy")

    async def _copy(self, node: int, api: Any, version: int, request: Any, delay_s: float) -> Any:
        """The answer, or None."""
        await asyncio.sleep(delay_s)
        try:
            network = HostNetwork(self.world.network)
            connection = await Connection.open(f"n{node}", KAFKA, client_id="copy", network=network, timeout_s=1.0)
        except Failed:
            return None
        try:
            self.world.oracles.count("copies")
            return await connection.request(api, version, request, 5.0)
        except Failed:
            return None
        finally:
            connection.close()

    def commit_late(
        self, member: Member, place: Place, node: int, version: int, request: Any, delay_s: float
    ) -> None:
        async def send() -> None:
            await asyncio.sleep(delay_s)
            owner = self.owners.get(place)
            answer = await self._copy(node, OFFSET_COMMIT, version, request, 0.0)
            if answer is None or owner is None or owner is member or self.owners.get(place) is not owner:
                return
            code = ErrorCode(answer.topics[0].partitions[0].error_code)
            what = f"{member.name} committed {place} in epoch {request.generation_id_or_member_epoch}, though"
            require(code != ErrorCode.NONE, "G4", what, owner.name, "has it")
            self.world.oracles.count("late commits refused")

        self.world.loop.create_task(send(), name="late commit")

    # --- what is committed -----------------------------------------------------------------------------------

    def _committed(self, log: PartitionLog) -> None:
        if log.partition.topic != GROUP_TOPIC:
            return
        place = self.world.place_of(log)
        if place is None:
            return
        while self._next.get(place, 0) < log.high_watermark:
            read = log.read(self._next.get(place, 0), READ_BYTES, Isolation.HIGH_WATERMARK)
            if not read.data:
                break
            content = bytes(read.data)
            for at, header in batches(content):
                if header.base_offset >= self._next.get(place, 0) and not header.control:
                    self._take(content, at)
                self._next[place] = max(self._next.get(place, 0), header.next_offset)

    def _take(self, content: bytes, at: int) -> None:
        """The records of one heartbeat are one batch: what they say together must hold."""
        for record in read_records(content, at):
            found = decode(record.key, record.value)
            if isinstance(found, ConsumerRecord):
                self._stored.setdefault(self.group, StoredGroup()).take(found)
                self.world.oracles.count("records of groups")
        for group, stored in self._stored.items():
            stored.check(group)

    # --- the end ---------------------------------------------------------------------------------------------

    def resting(self) -> bool:
        """Every partition has a member, and all know what they have."""
        now = self.world.loop.time()
        settled = all(each.stable_since is not None and now - each.stable_since > SETTLED_S for each in self.members)
        return settled and set(self.owners) == set(self.places())

    def state(self) -> str:
        members = {
            each.name: (each.id, each.classic, each.epoch, sorted(map(str, each.owned)), each.stable_since)
            for each in self.members
        }
        free = [str(place) for place in self.places() if place not in self.owners]
        return f"{members}, nobody has {free}"
