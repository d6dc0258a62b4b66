"""What administrators do to a simulated cluster, by the requests that their tools send."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ErrorCode
from rookery.core.testing.control import NO_PROCESS
from rookery.core.wire.apis.alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from rookery.core.wire.apis.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from rookery.core.wire.apis.create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from rookery.core.wire.apis.create_topics import (
    CREATE_TOPICS,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from rookery.core.wire.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from rookery.core.wire.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from rookery.core.wire.apis.elect_leaders import ELECT_LEADERS, ElectLeadersRequest
from rookery.core.wire.apis.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.simulation.nodes_clients import Client, Failed
from tests.simulation.nodes_host import Place
from tests.simulation.nodes_swarm import TopicPlan, draw_topic

if TYPE_CHECKING:
    from tests.simulation.nodes_world import World

ANSWER_S = 35.0
TOPIC = 2
SET = 0
TOPICS_MAX = 6
PRODUCER_RATE = "producer_byte_rate"
SCRATCH = "scratch"
"""A topic of transactions that comes and goes."""


class Admin(Client):
    """One administrator: does one thing after the other, and does not mind being refused."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "admin")
        self.draw = Random(f"{world.seed} admin")
        self.done = 0
        self.busy = False
        self._made = 0
        self._down: list[TopicPlan] = []

    def start(self) -> None:
        self.run(self._go())

    async def _go(self) -> None:
        swarm = self.world.swarm
        while not self.world.quiet:
            await asyncio.sleep(self.draw.expovariate(1.0) * swarm.work_s)
            if self.world.quiet:
                break
            chosen = self.draw.choices(list(swarm.work), list(swarm.work.values()))[0]
            self.world.trace("admin", chosen)
            self.busy = True
            try:
                await getattr(self, chosen)()
            except Failed as error:
                self.world.trace("admin failed", chosen, type(error).__name__)
            self.busy = False
            self.done += 1
        self.close()

    # --- whom ------------------------------------------------------------------------------------------------

    def _topics(self) -> list[str]:
        return sorted({p.topic for p in self.world.places() if p.topic in self.world.plans})

    def _places(self) -> list[Place]:
        return [p for p in self.world.places() if p.topic in self.world.plans]

    def _targets(self, size: int) -> list[int] | None:
        known = [n for n in self.world.brokers if n in self.world.image.brokers]
        return self.draw.sample(known, size) if len(known) >= size else None

    async def _send(self, api: Any, version: int, request: Any) -> Any:
        return await self.ask(self.some_node(), api, version, request, ANSWER_S)

    # --- topics ----------------------------------------------------------------------------------------------

    async def make(self, name: str, plan: TopicPlan) -> ErrorCode:
        self.world.plans[name] = plan
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in plan.configs.items()]
        topic = CreatableTopic(
            name=name,
            num_partitions=plan.partitions,
            replication_factor=plan.replication_factor,
            assignments=[],
            configs=configs,
        )
        answer = await self._send(CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        code = ErrorCode(answer.topics[0].error_code)
        self.world.trace("created", name, code.name)
        return code

    async def create_topic(self) -> None:
        if len(self._topics()) < TOPICS_MAX:
            self._made += 1
            plan = draw_topic(self.draw, len(self.world.swarm.brokers), self.world.swarm.pace)
            await self.make(f"x{self._made}", plan)

    async def delete_topic(self) -> None:
        topics = self._topics()
        if len(topics) > 1:
            await self._delete(self.draw.choice(topics))

    async def _delete(self, name: str) -> None:
        answer = await self._send(DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000))
        self.world.trace("deleted", name, ErrorCode(answer.responses[0].error_code).name)

    async def recreate_topic(self) -> None:
        """Delete, and make another of the same name at once or soon."""
        topics = self._topics()
        if not topics:
            return
        name = self.draw.choice(topics)
        plan = self.world.plans[name]
        await self._delete(name)
        if self.draw.random() < 0.5:
            await asyncio.sleep(self.draw.random() * 2.0)
        if self.draw.random() < 0.5:
            plan = draw_topic(self.draw, len(self.world.swarm.brokers), self.world.swarm.pace)
        for _ in range(3):
            if await self.make(name, plan) == ErrorCode.NONE:
                return
            await asyncio.sleep(0.5)

    async def renew_scratch(self) -> None:
        """Delete what transactions have records in, now and then in the middle of one, and make it again."""
        plan = self.world.plans[SCRATCH]
        await self._delete(SCRATCH)
        if self.draw.random() < 0.5:
            await asyncio.sleep(self.draw.random() * 2.0)
        for _ in range(3):
            if await self.make(SCRATCH, plan) == ErrorCode.NONE:
                self.world.oracles.count("renewed")
                return
            await asyncio.sleep(0.5)

    async def grow_topic(self) -> None:
        topics = self._topics()
        if not topics:
            return
        name = self.draw.choice(topics)
        topic = self.world.image.topic(name)
        if topic is not None and len(topic.partitions) < 4:
            asked = CreatePartitionsTopic(name=name, count=len(topic.partitions) + 1)
            request = CreatePartitionsRequest(topics=[asked], timeout_ms=30_000, validate_only=False)
            await self._send(CREATE_PARTITIONS, 2, request)

    # --- replicas --------------------------------------------------------------------------------------------

    async def reassign(self) -> None:
        """Other nodes, or the same in another order."""
        places = self._places()
        if places:
            await self._reassign(self.draw.choice(places))

    async def reassign_again(self) -> None:
        """Another target while the first is not reached."""
        places = self._places()
        if places:
            place = self.draw.choice(places)
            await self._reassign(place)
            await asyncio.sleep(self.draw.random() * 0.5)
            await self._reassign(place)

    async def _reassign(self, place: Place, target: list[int] | None = None) -> None:
        partition = self.world.partition(place)
        plan = self.world.plans[place.topic]
        target = target or self._targets(plan.replication_factor)
        if partition is None or target is None:
            return
        asked = ReassignablePartition(partition_index=place.index, replicas=target)
        topic = ReassignableTopic(name=place.topic, partitions=[asked])
        await self._send(ALTER_PARTITION_REASSIGNMENTS, 0, AlterPartitionReassignmentsRequest(topics=[topic]))
        self.world.trace("reassigned", place, target)

    async def drain(self) -> None:
        """Move everything away from one node, as before its removal."""
        node = self.draw.choice(self.world.brokers)
        for place in self._places():
            partition = self.world.partition(place)
            others = [n for n in self.world.brokers if n != node and n in self.world.image.brokers]
            if partition is not None and node in partition.replicas and len(others) >= len(partition.replicas):
                await self._reassign(place, self.draw.sample(others, len(partition.replicas)))

    async def leave_and_join(self) -> None:
        """A new broker joins, once; else one restarts in order."""
        world = self.world
        if len(world.brokers) < len(world.swarm.brokers) + world.swarm.late_nodes:
            world.trace("joins", world.add_node().id)
            return
        node = world.nodes[self.draw.choice(world.brokers)]
        if node.ready and world.may_fail(node):
            world.loop.call_soon(node.stop, context=NO_PROCESS)

    async def elect_preferred(self) -> None:
        await self._send(ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=None, timeout_ms=30_000))

    # --- options and records ---------------------------------------------------------------------------------

    async def alter_config(self) -> None:
        topics = self._topics()
        if not topics:
            return
        name = self.draw.choice(topics)
        plan = self.world.plans[name]
        key, value = self.draw.choice(
            (
                ("retention.ms", str(plan.retention_ms)),
                ("retention.ms", "-1"),
                ("retention.bytes", str(4 * plan.segment_bytes)),
                ("retention.bytes", "-1"),
                ("cleanup.policy", "compact"),
                ("cleanup.policy", "delete"),
                ("cleanup.policy", "compact,delete"),
                ("min.insync.replicas", str(plan.min_insync)),
                ("min.insync.replicas", "1"),
                ("segment.ms", str(plan.retention_ms)),
                ("max.compaction.lag.ms", str(plan.retention_ms)),
            )
        )
        config = AlterableConfig(name=key, config_operation=SET, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = await self._send(INCREMENTAL_ALTER_CONFIGS, 1, request)
        self.world.trace("config", name, key, value, answer.responses[0].error_code)

    async def _quota(self, key: str, value: float, *, remove: bool) -> None:
        name = f"p{self.draw.randrange(self.world.swarm.producers)}"
        op = OpData(key=key, value=value, remove=remove)
        entry = EntryData(entity=[EntityData(entity_type="client-id", entity_name=name)], ops=[op])
        request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
        answer = await self._send(ALTER_CLIENT_QUOTAS, 1, request)
        self.world.trace("quota", name, key, value, remove, answer.entries[0].error_code)

    async def set_quota(self) -> None:
        """What a producer may send each second: little, or more than it does."""
        await self._quota(PRODUCER_RATE, float(self.draw.choice((500, 5000, 1_000_000))), remove=False)

    async def lift_quota(self) -> None:
        await self._quota(PRODUCER_RATE, 0.0, remove=True)

    async def delete_records(self) -> None:
        places = self._places()
        place = self.draw.choice(places) if places else None
        found = self.leader(place) if place is not None else None
        end = self.world.oracles.acked_end.get(place, 0) if place is not None else 0
        if place is None or found is None or not end:
            return
        offset = self.draw.randint(0, end)
        asked = self.world.oracles.delete_asked
        asked[place.named] = max(offset, asked.get(place.named, 0))
        records = DeleteRecordsPartition(partition_index=place.index, offset=offset)
        topic = DeleteRecordsTopic(name=place.topic, partitions=[records])
        answer = await self.ask(found[0], DELETE_RECORDS, 1, DeleteRecordsRequest(timeout_ms=5000, topics=[topic]))
        self.world.trace("records deleted", place, offset, answer.topics[0].partitions[0].error_code)
