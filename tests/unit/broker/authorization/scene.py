"""A broker with an authorizer, something of each kind to ask for, and clients of whom a test says what they may."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from rookery.broker.server.access import Denial, Guard
from rookery.core.errors import ErrorCode
from rookery.core.metadata.acl_codes import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from rookery.core.metadata.features import GROUP_VERSION
from rookery.core.metadata.image import AccessControlEntry
from rookery.core.metadata.records import FeatureLevelRecord
from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from rookery.core.net.connection import Connection
from rookery.core.security.authorizer import AclIndex, Authorizer
from rookery.core.security.principal import ANONYMOUS, KafkaPrincipal
from rookery.core.wire.api import Api
from rookery.core.wire.api_table import ALL
from rookery.core.wire.primitives import NO_UUID
from rookery.core.wire.schema import Array, Struct
from tests.unit.broker.one_broker import OneBroker, running_broker
from tests.unit.broker.talk import batch_of
from tests.unit.broker.waiting import until

APIS: dict[str, Api[Any, Any]] = {api.name: api for api in ALL}
ALICE, ADMIN = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "admin")
TOPIC, DOOMED, GROUP, STREAMING, ID = "orders", "doomed", "billing", "streaming", "payments"
AUTHORIZATION_CODES = {29, 30, 31, 53, 65}
CONFIG = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
_TYPES = {
    "T": AclResourceType.TOPIC,
    "G": AclResourceType.GROUP,
    "C": AclResourceType.CLUSTER,
    "X": AclResourceType.TRANSACTIONAL_ID,
}


def acl(right: str, principal: str = str(ALICE), *, deny: bool = False, host: str = "*") -> AccessControlEntry:
    """From `READ T orders`, `READ T ord*` (a prefix) or `ALTER C`."""
    operation, type, *names = right.split()
    name = names[0] if names else CLUSTER_NAME
    pattern = PatternType.LITERAL
    if name.endswith("*") and name != "*":
        name, pattern = name[:-1], PatternType.PREFIXED
    permission = AclPermission.DENY if deny else AclPermission.ALLOW
    return AccessControlEntry(_TYPES[type], name, pattern, principal, host, AclOperation[operation], permission)


def build(struct: type[Struct], values: Mapping[str, Any]) -> Any:
    """A message from plain dicts and lists; what is left out has its default, or nothing in it."""
    made = {}
    for name, declared in struct.fields.items():
        if name not in values:
            if declared.required:
                made[name] = declared.default
            continue
        made[name] = _built(declared.type, values[name])
    unknown = values.keys() - struct.fields.keys()
    assert not unknown, f"{struct.__name__} has no {unknown}"
    return struct(**made)


def _built(type_: Any, value: Any) -> Any:
    if isinstance(type_, Array) and value is not None:
        return [_built(type_.of, each) for each in value]
    if isinstance(type_, type) and issubclass(type_, Struct) and isinstance(value, Mapping):
        return build(type_, value)
    return value


def codes(answer: Any) -> set[int]:
    """All error codes of an answer, wherever they stand."""
    found: set[int] = set()
    if isinstance(answer, Struct):
        for name in answer.fields:
            value = getattr(answer, name)
            if name.endswith("error_code"):
                found.add(value)
            else:
                found |= codes(value)
    elif isinstance(answer, list | tuple):
        for each in answer:
            found |= codes(each)
    return found - {0}


class Caller:
    """One connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def ask(self, name: str, version: int, **fields: Any) -> Any:
        api = APIS[name]
        return await self.connection.request(api, version, build(api.request, fields), 20)


@dataclass
class Scene:
    broker: OneBroker
    guard: Guard
    denials: list[Denial]
    alice: Caller
    admin: Caller
    topic_id: UUID = NO_UUID
    producer_id: int = -1
    producer_epoch: int = -1

    def allow(self, *rights: str) -> None:
        """These and no others, for alice."""
        self.set(map(acl, rights))

    def set(self, acls: Iterable[AccessControlEntry]) -> None:
        self.guard.authorizer = replace(self.guard.authorizer, index=AclIndex.of(acls))
        self.denials.clear()


@asynccontextmanager
async def bare(**config: str) -> AsyncIterator[Scene]:
    """A broker with the topics `orders` and `doomed`, and two clients."""
    denials: list[Denial] = []
    brokers = str(ANONYMOUS)  # what the broker itself is when it asks itself
    guard = Guard(Authorizer(super_users=frozenset({str(ADMIN), brokers})), denials.append)
    async with running_broker(config={**CONFIG, **config}, guard=guard) as broker:
        reply = await broker.cluster.ask(CreateTopicsRequest((NewTopic(TOPIC, 2, 1), NewTopic(DOOMED, 1, 1))))
        broker.cluster.commit([FeatureLevelRecord(GROUP_VERSION, 1)])
        callers = [await connected(broker, principal) for principal in (ALICE, ADMIN)]
        try:
            yield Scene(broker, guard, denials, callers[0], callers[1], reply.topics[0].topic_id)
        finally:
            for caller in callers:
                caller.connection.close()


async def connected(broker: OneBroker, principal: KafkaPrincipal) -> Caller:
    known = set(broker.server.connections)
    connection = await Connection.open("127.0.0.1", broker.port, client_id="unit")
    (fresh,) = set(broker.server.connections) - known
    fresh.client.identify(principal)
    return Caller(connection)


@asynccontextmanager
async def full() -> AsyncIterator[Scene]:
    """With a group that has committed, a group of the consumer protocol with a member, and an open transaction."""
    async with bare() as scene:
        admin = scene.admin
        for key_type, key in ((0, GROUP), (1, ID)):

            async def found(key_type: int = key_type, key: str = key) -> bool:
                answer = await admin.ask("FindCoordinator", 4, key_type=key_type, coordinator_keys=[key])
                return bool(answer.coordinators[0].error_code == ErrorCode.NONE)

            await eventually(found)
        await until(lambda: not (scene.broker.groups.loading or scene.broker.transactions.loading))
        batch = batch_of(b"value")
        await admin.ask("Produce", 11, acks=1, timeout_ms=1000, topic_data=[_data(batch)])
        committed = await admin.ask(
            "OffsetCommit", 9, group_id=GROUP, generation_id_or_member_epoch=-1,
            topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
        )  # fmt: skip
        assert codes(committed) == set()
        await _with_member(admin)
        begun = await admin.ask("InitProducerId", 3, transactional_id=ID, transaction_timeout_ms=60_000)
        scene.producer_id, scene.producer_epoch = begun.producer_id, begun.producer_epoch
        added = await admin.ask(
            "AddPartitionsToTxn", 3, v3_and_below_transactional_id=ID, v3_and_below_producer_id=scene.producer_id,
            v3_and_below_producer_epoch=scene.producer_epoch,
            v3_and_below_topics=[{"name": TOPIC, "partitions": [0]}],
        )  # fmt: skip
        assert codes(begun) | codes(added) == set()
        yield scene


async def _with_member(admin: Caller) -> None:
    answer = await admin.ask(
        "ConsumerGroupHeartbeat", 1, group_id=STREAMING, member_id="m1", member_epoch=0, rebalance_timeout_ms=60_000,
        subscribed_topic_names=[TOPIC], topic_partitions=[],
    )  # fmt: skip
    assert codes(answer) == set()


async def eventually(holds: Any) -> None:
    for _ in range(500):
        if await holds():
            return
    raise AssertionError("it did not come true")


def _data(batch: bytes) -> dict[str, Any]:
    return {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
