"""Transactional clients of simulated nodes, of both transaction versions.

Writers fill an input topic; processors read what is committed there and write a result of each record, with the offsets
of their group in the same transaction. They commit, abort, crash, are too slow, go on while an heir has begun, and send
copies of their requests that arrive late. Everything is written into a history, which the checker judges in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ErrorCode
from rookery.core.net.connection import Connection
from rookery.core.testing.control import NO_PROCESS
from rookery.core.testing.hosts import HostNetwork
from rookery.core.wire.apis.add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from rookery.core.wire.apis.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from rookery.core.wire.apis.end_txn import END_TXN, EndTxnRequest
from rookery.core.wire.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from rookery.core.wire.apis.produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from rookery.core.wire.apis.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from rookery.core.wire.records import Record, build_batch
from tests.cluster.transaction_history import Begin, End, Ended, Event, Offsets, Send, Sent
from tests.simulation.controller_rules import require
from tests.simulation.nodes_clients import Client, Failed
from tests.simulation.nodes_host import KAFKA, Place

if TYPE_CHECKING:
    from tests.simulation.nodes_swarm import TransactionPlan
    from tests.simulation.nodes_transaction_load import TransactionLoad
    from tests.simulation.nodes_world import World

GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators."""
OF_GROUPS = ("AddOffsetsToTxn", "TxnOffsetCommit")
BUMPING = 2
ATTEMPTS = 40
_E = ErrorCode
AGAIN = {
    _E.NOT_COORDINATOR, _E.COORDINATOR_NOT_AVAILABLE, _E.COORDINATOR_LOAD_IN_PROGRESS, _E.CONCURRENT_TRANSACTIONS,
    _E.REQUEST_TIMED_OUT, _E.UNKNOWN_TOPIC_OR_PARTITION, _E.NOT_LEADER_OR_FOLLOWER, _E.NOT_ENOUGH_REPLICAS,
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, _E.KAFKA_STORAGE_ERROR, _E.NETWORK_EXCEPTION, _E.UNSTABLE_OFFSET_COMMIT,
    _E.FENCED_LEADER_EPOCH, _E.UNKNOWN_LEADER_EPOCH,
}  # fmt: skip
"""After these a client asks again."""
KNOWN = {
    _E.PRODUCER_FENCED, _E.INVALID_PRODUCER_EPOCH, _E.INVALID_PRODUCER_ID_MAPPING, _E.INVALID_TXN_STATE,
    _E.TRANSACTION_ABORTABLE, _E.OUT_OF_ORDER_SEQUENCE_NUMBER, _E.UNKNOWN_PRODUCER_ID,
}  # fmt: skip
"""What else clients may be told; anything else is a failure."""


class History:
    """All events, in the order in which they happened."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.events: list[Event] = []

    def write(self, kind: Callable[..., Event], *fields: object, **more: object) -> None:
        self.events.append(kind(int(self._world.loop.time() * 1e9), *fields, **more))


class Over(Exception):
    """This instance cannot go on: it is fenced, or gave up."""


class Aborts(Exception):
    """This transaction cannot be committed."""


class Coordinated(Client):
    """A client that asks coordinators, until they answer."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._coordinators: dict[tuple[int, str], int] = {}
        self.attempts = 0
        """How often the last request was sent."""

    async def coordinate(
        self,
        kind: int,
        key: str,
        api: Any,
        version: int,
        request: Any,
        code_of: Callable[[Any], int],
        *,
        attempts: int = ATTEMPTS,
        sent: Callable[[int], None] = lambda node: None,
    ) -> tuple[ErrorCode, Any]:
        """The first answer after which asking again makes no sense; `sent` is called for each attempt."""
        self.attempts = 0
        while self.attempts < attempts:
            try:
                node = await self._find(kind, key)
                self.attempts += 1
                sent(node)
                answer = await self.ask(node, api, version, request)
            except Failed:
                self._coordinators.pop((kind, key), None)
            else:
                code = ErrorCode(code_of(answer))
                if code not in AGAIN:
                    return code, answer
                if code in (_E.NOT_COORDINATOR, _E.COORDINATOR_NOT_AVAILABLE):
                    self._coordinators.pop((kind, key), None)
            await asyncio.sleep(0.02 + self.rng.random() * 0.2)
        raise Over(f"{api.name} was not answered")

    async def _find(self, kind: int, key: str) -> int:
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        request = FindCoordinatorRequest(key=key, key_type=kind)
        answer = await self.ask(self.some_node(), FIND_COORDINATOR, 2, request)
        if answer.error_code:
            raise OSError("no coordinator")
        self._coordinators[kind, key] = answer.node_id
        return int(answer.node_id)


class Instance(Coordinated):
    """One process of a transactional producer: sessions follow each other until it is fenced or crashes."""

    takes_late_ends = False
    """Whether the harm that a late EndTxn of an old client does is known to be of the kinds that are counted apart."""

    def __init__(self, load: TransactionLoad, transactional_id: str, name: str) -> None:
        super().__init__(load.world, name)
        self.load = load
        self.plan: TransactionPlan = load.plan
        self.id = transactional_id
        self.version = 1 if self.rng.random() < load.plan.old else BUMPING
        self.producer_id, self.epoch = -1, -1
        self._session = ""
        self._sessions = 0
        self._transactions = 0
        self._numbers: dict[Place, int] = {}
        self._sequences: dict[Place, int] = {}
        self._unsure = False
        """A batch of this transaction may still arrive."""
        self._copied = False
        self._patience = ATTEMPTS
        self._late: asyncio.Task[bool] | None = None
        self._later: asyncio.Task[bool] | None = None
        """Copies of EndTxn that an old client has under way: of the last transaction, and of the one before it."""

    # --- sending ---------------------------------------------------------------------------------------------

    def _copy(self, api: Any, version: int, request: Any) -> Callable[[int], None]:
        """Perhaps this request arrives once more, later."""
        self._copied = False

        def sent(node: int) -> None:
            if self.rng.random() < self.plan.repeats and not self.world.quiet:
                self._copied = True
                task = self._send_late(node, api, version, request, self.rng.random() * self.plan.late_s)
                self._late = self.world.loop.create_task(task, name=f"{self.name} late")

        return sent

    async def _send_late(self, node: int, api: Any, version: int, request: Any, delay_s: float) -> bool:
        """Whether it was answered, and so will not arrive any more."""
        await asyncio.sleep(delay_s)
        try:
            network = HostNetwork(self.world.network)
            connection = await Connection.open(
                f"n{node}", KAFKA, client_id=self.name, network=network, timeout_s=1.0
            )
        except Failed:
            return True
        try:
            await connection.request(api, version, request, 10.0)
            self.world.oracles.count("late copies")
            return True
        except Failed:
            return False
        finally:
            connection.close()

    async def _transact(self, api: Any, version: int, request: Any, code_of: Callable[[Any], int]) -> Any:
        """Ask the transaction's coordinator. Copies of an old client's requests come late only where that is known to
        be harmless."""
        sent = self._copy(api, version, request) if self.version >= BUMPING else (lambda node: None)
        code, answer = await self.coordinate(TRANSACTION, self.id, api, version, request, code_of, sent=sent)
        self._judge(code, api.name)
        return answer

    def _judge(self, code: ErrorCode, what: str) -> None:
        """Raises for whatever is not a success."""
        if code == _E.NONE:
            return
        self.world.oracles.count(code.name)
        require(code in KNOWN, "error", f"{self.name}: {what} was answered with {code.name}")
        if code in (_E.TRANSACTION_ABORTABLE, _E.INVALID_TXN_STATE, _E.OUT_OF_ORDER_SEQUENCE_NUMBER):
            raise Aborts(what)
        raise Over(f"{what}: {code.name}")

    # --- a session -------------------------------------------------------------------------------------------

    def _between(self, step: str, place: Place | None = None) -> None:
        """After a step, before the next: perhaps who coordinates, or leads `place`, is killed."""
        if self.plan.each_step:
            self._strike_once(step, place)
            return
        if not self.plan.strikes or self.rng.random() >= self.plan.strikes:
            return
        found = self.leader(place) if place is not None and self.rng.random() < 0.5 else None
        coordinator = self._coordinators.get((TRANSACTION, self.id), -1)
        self.world.strike(coordinator if found is None else found[0], step)

    def _strike_once(self, step: str, place: Place | None) -> None:
        """While all nodes run: whoever has not been killed after this step yet. It comes back soon."""
        world = self.world
        if not all(node.up for node in world.nodes.values()):
            return
        found = self.leader(place) if place is not None else None
        roles = {"coordinator": self._coordinators.get((TRANSACTION, self.id), -1)}
        if found is not None:
            roles["leader"] = found[0]
        if step in OF_GROUPS:
            roles["coordinator of the group"] = self._coordinators.get((GROUP, self.load.group), -1)
        for role, number in roles.items():
            what = f"{step}: {role} killed"
            if what not in world.oracles.counts and world.strike(number, step):
                world.oracles.count(what)
                world.loop.call_later(0.3 + self.rng.random(), world.nodes[number].start, context=NO_PROCESS)
                return

    async def init(self, *, known: bool = False) -> None:
        """Become the producer with this transactional id; `known` says who it was before."""
        load = self.load
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=self.plan.timeout_ms,
            producer_id=self.producer_id if known else -1,
            producer_epoch=self.epoch if known else -1,
        )
        before = load.newest.get(self.id)
        version = 5 if self.version >= BUMPING else 4
        code, answer = await self.coordinate(
            TRANSACTION, self.id, INIT_PRODUCER_ID, version, request, lambda each: each.error_code
        )
        self._judge(code, "InitProducerId")
        found = (answer.producer_id, answer.producer_epoch)
        if before is not None and found[0] == before[0] and not known:
            require(found[1] > before[1], "T6", f"{self.id} was given {found} after", before)
        self._become(*found)
        load.oracles.given(*found)
        self._late = self._later = None
        self._sessions += 1
        self._session = f"{self.name}s{self._sessions}"
        self._transactions = 0
        self._unsure = False
        self.world.trace("session", self._session, *found)
        self._between("InitProducerId")
        self.world.oracles.count("sessions")

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch
        newest = self.load.newest.get(self.id, (-1, -1))
        self.load.newest[self.id] = max(newest, (producer_id, epoch))

    # --- a transaction ---------------------------------------------------------------------------------------

    async def begin(self) -> str:
        await self._let_copies_arrive()
        self._transactions += 1
        self._patience = 1 if self.rng.random() < self.plan.impatient and not self.world.quiet else ATTEMPTS
        txn = f"{self._session}t{self._transactions}"
        self.load.history.write(Begin, txn, self._session, self.version)
        return txn

    async def _let_copies_arrive(self) -> None:
        """The copy of an old client's EndTxn may end the next transaction: it must not end those after it."""
        if self.version >= BUMPING:
            return
        waiting, self._later, self._late = self._later, self._late, None
        if waiting is not None and not await waiting:
            await self.init()
        if self._later is not None and not self.takes_late_ends:
            waiting, self._later = self._later, None
            if not await waiting:
                await self.init()

    async def add_partitions(self, places: list[Place]) -> None:
        """Old clients say where they are about to write."""
        if self.version >= BUMPING:
            return
        topics: dict[str, list[int]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append(place.index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
            ],
        )
        await self._transact(ADD_PARTITIONS_TO_TXN, 3, request, _first_partition_code)
        self._between("AddPartitionsToTxn", places[0] if places else None)

    async def send(self, txn: str, place: Place, sources: list[tuple[str, int] | None]) -> None:
        """A batch of one record for each source, until it is acknowledged."""
        now, values, records = self.now_ms(), [], []
        for number, source in enumerate(sources):
            count = self._numbers.get(place, 0)
            self._numbers[place] = count + 1
            value = f"{self.name}.{place.topic}.{place.index}-{count}/k".encode()
            self.world.oracles.sent[value] = (place.named, now)
            self.load.history.write(Send, txn, _named(place), value.decode(), source)
            values.append(value)
            records.append(Record(number, now, b"k", value))
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(records)
        data = build_batch(
            records,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        offset = await self._produce(place, bytes(data))
        for number, value in enumerate(values):
            self.load.history.write(Sent, txn, _named(place), value.decode(), offset + number)
        self.world.oracles.acked(place, offset, values)
        self._between("Produce", place)

    async def send_aside(self, place: Place) -> None:
        """A record in a topic that may be gone before the transaction ends: of no account to the history."""
        now, count = self.now_ms(), self._numbers.get(place, 0)
        self._numbers[place] = count + 1
        value = f"{self.name}.{place.topic}.{place.index}.{place.id.int & 0xFFFF}-{count}/k".encode()
        self.world.oracles.sent[value] = (place.named, now)
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + 1
        data = build_batch(
            [Record(0, now, b"k", value)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        await self._produce(place, bytes(data))
        self.world.oracles.count("sent aside")

    async def _produce(self, place: Place, data: bytes) -> int:
        version = self.rng.choice((9, 11)) if self.version < BUMPING else 12
        request = ProduceRequest(
            transactional_id=self.id,
            acks=-1,
            timeout_ms=self.world.swarm.request_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=place.topic, partition_data=[PartitionProduceData(index=place.index, records=data)]
                )
            ],
        )
        late, sent = self._late, self._copy(PRODUCE, version, request)
        timeout_s = None if self._patience > 1 else 0.1 + self.rng.random() * 0.3
        for _ in range(self._patience):
            found = self.leader(place)
            if found is None and self.world.partition(place) is None:
                raise Aborts(f"{place} is gone")
            if found is not None:
                sent(found[0])
                self._unsure = self._unsure or self._copied
                try:
                    answer = await self.ask(found[0], PRODUCE, version, request, timeout_s)
                except Failed:
                    self._unsure = True
                else:
                    answered = answer.responses[0].partition_responses[0]
                    code = ErrorCode(answered.error_code)
                    if code not in AGAIN:
                        self._late = late if self.version < BUMPING else None
                        self._judge(code, "Produce")
                        return int(answered.base_offset)
                    self._unsure = True
            await asyncio.sleep(0.02 + self.rng.random() * 0.2)
        raise Aborts("Produce was not answered")

    async def commit_offset(self, txn: str, place: Place, offset: int) -> None:
        """The group is to go on here when the transaction is committed."""
        group = self.load.group
        self.load.history.write(Offsets, txn, group, {_named(place): offset})
        if self.version < BUMPING:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
            )
            await self._transact(ADD_OFFSETS_TO_TXN, 3, adding, lambda each: int(each.error_code))
            self._between("AddOffsetsToTxn")
        asked = TxnOffsetCommitRequestPartition(partition_index=place.index, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=place.topic, partitions=[asked])],
        )
        version = 5 if self.version >= BUMPING else self.rng.choice((3, 4))
        new = self.version >= BUMPING
        code, _ = await self.coordinate(
            GROUP,
            group,
            TXN_OFFSET_COMMIT,
            version,
            request,
            lambda each: int(each.topics[0].partitions[0].error_code),
            sent=self._copy(TXN_OFFSET_COMMIT, version, request) if new else (lambda node: None),
        )
        self._judge(code, "TxnOffsetCommit")
        self._between("TxnOffsetCommit")

    async def end(self, txn: str, *, commit: bool) -> None:
        """Ask for the end until there is an answer; raises where the session is over."""
        load, before = self.load, (self.producer_id, self.epoch)
        shut_out = load.oracles.highest(self.producer_id) > self.epoch
        load.history.write(End, txn, "commit" if commit else "abort")
        request = EndTxnRequest(
            transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        version = 5 if self.version >= BUMPING else self.rng.choice((3, 4))
        sent = self._copy(END_TXN, version, request)
        try:
            code, answer = await self.coordinate(
                TRANSACTION, self.id, END_TXN, version, request, lambda each: each.error_code, sent=sent
            )
        except Over:
            load.history.write(Ended, txn, "unknown")
            raise
        again = self.attempts > 1 or self._copied
        self.world.trace("ended", txn, commit, code.name, again)
        if code != _E.NONE:
            load.history.write(Ended, txn, "unknown" if again else "fail", again)
            self.world.oracles.count(f"end {code.name}")
            require(code in KNOWN, "error", f"{self.name}: EndTxn was answered with {code.name}")
            raise Over(f"EndTxn: {code.name}")
        load.history.write(Ended, txn, "ok", again)
        self._between("EndTxn", next(iter(self._sequences), None))
        require(not shut_out, "T6", f"{txn} was ended by {before}, which a newer producer had shut out")
        if self.version >= BUMPING:
            after = (answer.producer_id, answer.producer_epoch)
            higher = after[0] != before[0] or after[1] > before[1]
            require(higher, "T11", f"{txn}: {before} goes on as {after}")
            self._become(*after)

    async def abort(self, txn: str) -> None:
        """A new client goes on with another epoch; an old one asks for one if something may still arrive."""
        unsure = self._unsure
        await self.end(txn, commit=False)
        if self.version < BUMPING and unsure:
            await self.init(known=self.rng.random() < 0.5)
        self._unsure = False


def _first_partition_code(answer: Any) -> int:
    codes = [
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
        if each.partition_error_code not in (_E.NONE, _E.OPERATION_NOT_ATTEMPTED)
    ]
    return codes[0] if codes else 0


def _named(place: Place) -> str:
    return f"{place.topic}-{place.index}"
