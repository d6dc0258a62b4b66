"""The metadata quorum of the simulated cluster: real controllers over a log that commits late, changes its leader,
and loses what was proposed and not committed.

Raft itself is simulated elsewhere. Here a leader needs a majority within reach to commit; one that lost it may
not know for a while and goes on proposing into the void; what it had proposed survives up to a random point.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
import grpc.aio

from rookery.controller.access import Access
from rookery.controller.loop import ControllerLoop
from rookery.controller.quorum import CommittedBatch, SnapshotId
from rookery.controller.rpc import ControllerService
from rookery.controller.settings import ControllerSettings
from rookery.controller.snapshots import snapshot_id
from rookery.core.clock import Clock
from rookery.core.errors import NotControllerError
from rookery.core.metadata.image import Image
from rookery.core.metadata.rpc import METHODS
from rookery.core.metadata.snapshot import snapshot_values
from rookery.core.metadata_log import MetadataListener
from rookery.proto import raft_pb2
from tests.simulation.cluster_loop import Process, SimLoop, current
from tests.simulation.cluster_net import SimNetwork

NOBODY = -1
KEEPALIVE_S = 4.0
CHECK_S = 0.25
LATE_S = 0.2
"""Between two batches for a reader that is late."""
OUTSIDE = Process("nobody").context
"""For callbacks that belong to no process."""
BY_PATH = {method.path: method for method in METHODS.values()}


@dataclass
class QuorumTimes:
    commit_s: float = 0.005
    election_s: float = 1.0
    zombie_s: float = 1.5
    """How long a leader without a majority may believe that it leads."""


class Reader:
    """Somebody who follows the committed log: a controller, or a broker's view of the cluster."""

    def __init__(self, quorum: "Quorum", process: Process, listener: MetadataListener, *, snapshots: bool) -> None:
        self._quorum = quorum
        self.process = process
        self.listener = listener
        self.delivered = 0
        self.told = (NOBODY, 0)
        self._snapshots = snapshots
        self._next_at = 0.0

    def poke(self) -> None:
        """There may be news: take it if the leader can be reached, else look again later."""
        quorum = self._quorum
        if self not in quorum.readers:
            return
        if self.delivered >= quorum.committed and self.told[1] >= quorum.epoch:
            return
        leader = quorum.leader_process()
        if leader is None or (leader is not self.process and not quorum.network.linked(self.process.host, leader.host)):
            quorum.later(self, CHECK_S)
            return
        if quorum.late.get(self.process.host, 0.0) > quorum.loop.time():
            if quorum.loop.time() >= self._next_at:
                self._next_at = quorum.loop.time() + LATE_S
                self._deliver_one()
                quorum.later(self, LATE_S)
        else:
            self.deliver()

    def deliver(self) -> None:
        quorum = self._quorum
        if self._snapshots and quorum.committed - self.delivered > 3 and quorum.rng.random() < quorum.snapshot_rate:
            image = quorum.image()
            self._hear(image.epoch)
            self.listener.on_snapshot(snapshot_id(image), snapshot_values(image))
            self.delivered = quorum.committed
        while self.delivered < quorum.committed:
            self._deliver_one()
        if self.told[1] < quorum.epoch and quorum.leader_process() is not self.process:
            self.tell((quorum.leader, quorum.epoch))

    def _deliver_one(self) -> None:
        if self.delivered < self._quorum.committed:
            batch = self._quorum.batches[self.delivered]
            self._hear(batch.epoch)
            self.delivered += 1
            self.listener.on_commit(batch)

    def _hear(self, epoch: int) -> None:
        """NoIdentity hears of an epoch's records before he hears of the epoch."""
        if epoch > self.told[1]:
            quorum = self._quorum
            known = epoch == quorum.epoch and quorum.leader_process() is not self.process
            self.tell((quorum.leader if known else NOBODY, epoch))

    def tell(self, leader: tuple[int, int]) -> None:
        self.told = leader
        self.listener.on_leader(*leader)


class Seat:
    """One controller's place: what it gets as its quorum."""

    def __init__(self, quorum: "Quorum", node_id: int) -> None:
        self._quorum = quorum
        self.node_id = node_id
        self.reader: Reader | None = None
        self._void = 0

    @property
    def leader(self) -> tuple[int, int]:
        return self.reader.told if self.reader is not None else (NOBODY, 0)

    def propose(self, epoch: int, values: Sequence[bytes]) -> int:
        if self.leader != (self.node_id, epoch):
            raise NotControllerError(f"node {self.node_id} does not lead epoch {epoch}")
        quorum = self._quorum
        if (quorum.leader, quorum.epoch) != (self.node_id, epoch):  # replaced without knowing
            self._void = max(self._void, quorum.end) + len(values)
            return self._void - 1
        self._void = 0
        return quorum.append(values)

    def write_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        """Readers make their own."""

    def voter_features(self) -> dict[int, None]:
        return {}


class Controller:
    """A controller process."""

    def __init__(self, quorum: "Quorum", node_id: int, settings: ControllerSettings, clock: Clock) -> None:
        self.node_id = node_id
        self.host = f"c{node_id}"
        self.process = Process(self.host)
        seat = quorum.seats[node_id]
        self.loop = ControllerLoop(settings, seat, clock)
        seat.reader = self.reader = Reader(quorum, self.process, self.loop.controller, snapshots=False)
        access = Access(settings.cluster_id, node_id)
        self.service = ControllerService(self.loop, access, self._hint)
        self._quorum = quorum
        quorum.readers.append(self.reader)
        self.process.context.run(self._start)

    def _start(self) -> None:
        self._quorum.loop.create_task(self.loop.serve(), name=f"controller {self.node_id}")
        self._quorum.loop.call_soon(self.reader.poke)

    def _hint(self) -> raft_pb2.Leader:
        leader, epoch = self.reader.told
        return raft_pb2.Leader(id=leader, epoch=epoch, endpoint=f"c{leader}:1" if leader != NOBODY else "")


@dataclass
class Quorum:
    """The log, who leads it, and who follows it."""

    loop: SimLoop
    network: SimNetwork
    rng: Random
    times: QuorumTimes
    observed: Callable[[CommittedBatch], None]
    image: Callable[[], Image]
    wall_ms: Callable[[], int]
    snapshot_rate: float = 0.3
    batches: list[CommittedBatch] = field(default_factory=list)
    committed: int = 0
    end: int = 0
    epoch: int = 0
    leader: int = NOBODY
    seats: dict[int, Seat] = field(default_factory=dict)
    controllers: dict[int, Controller] = field(default_factory=dict)
    readers: list[Reader] = field(default_factory=list)
    late: dict[str, float] = field(default_factory=dict)
    """Hosts that hear of one batch at a time, until when."""
    elections: int = 0
    lost: int = 0
    _alone_since: float | None = None
    _zombies: dict[int, float] = field(default_factory=dict)

    # --- the log ---------------------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes]) -> int:
        self.batches.append(CommittedBatch(self.end, self.epoch, tuple(values), self.wall_ms()))
        self.end += len(values)
        delay = self.rng.expovariate(1.0) * self.times.commit_s
        self.loop.call_later(delay, self._commit, self.epoch, len(self.batches), context=OUTSIDE)
        return self.end - 1

    def _commit(self, epoch: int, count: int) -> None:
        if epoch != self.epoch or count <= self.committed:
            return
        if not self._has_majority(self.leader):
            self.loop.call_later(CHECK_S, self._commit, epoch, count, context=OUTSIDE)
            return
        self._commit_up_to(count)

    def _commit_up_to(self, count: int) -> None:
        while self.committed < count:
            batch = self.batches[self.committed]
            self.committed += 1
            self.observed(batch)
        for reader in self.readers:
            self.later(reader, self.network.delay_s(f"c{self.leader}", reader.process.host))

    def later(self, reader: Reader, delay_s: float) -> None:
        if reader.process.alive:
            self.loop.call_later(delay_s, reader.poke, context=reader.process.context)

    # --- who leads -------------------------------------------------------------------------------------------

    def leader_process(self) -> Process | None:
        controller = self.controllers.get(self.leader)
        return controller.process if controller is not None else None

    def _up(self, node: int) -> bool:
        controller = self.controllers.get(node)
        return controller is not None and controller.process.alive and not controller.process.paused

    def _has_majority(self, node: int) -> bool:
        if not self._up(node):
            return False
        reached = [other for other in self.seats if self._up(other) and self.network.linked(f"c{node}", f"c{other}")]
        return 2 * len(reached) > len(self.seats)

    def watch(self) -> None:
        """Look now and then whether the leader can still lead."""
        now = self.loop.time()
        for node, since in list(self._zombies.items()):
            if now - since > self.times.zombie_s and self._up(node):
                self._resign(node)
        if self._has_majority(self.leader):
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
            if self.leader != NOBODY:
                self._zombies[self.leader] = now
        elif now - self._alone_since > self.times.election_s:
            self.elect()
        self.loop.call_later(CHECK_S, self.watch, context=OUTSIDE)

    def _resign(self, node: int) -> None:
        self._zombies.pop(node, None)
        if node == self.leader:
            return
        reader = self.controllers[node].reader

        def notice() -> None:
            if reader.told[0] == node and (node, reader.told[1]) != (self.leader, self.epoch):
                reader.tell((NOBODY, reader.told[1]))

        self.loop.call_soon(notice, context=reader.process.context)

    def elect(self, *, without: int = NOBODY) -> None:
        """Another leader, if a majority can be had."""
        able = [node for node in self.seats if node != without and self._has_majority(node)]
        if not able:
            return
        self._alone_since = None
        chosen = self.rng.choice(able)
        if self.leader not in (NOBODY, chosen):
            self._zombies[self.leader] = self.loop.time()
        survivors = self.rng.randint(self.committed, len(self.batches))
        self.lost += len(self.batches) - survivors
        del self.batches[survivors:]
        self.elections += 1
        self.epoch += 1
        self.end = self.batches[-1].last_offset + 2 if self.batches else 1
        self.leader = chosen
        self._commit_up_to(len(self.batches))
        reader = self.controllers[chosen].reader
        epoch = self.epoch

        def lead() -> None:
            if self.epoch == epoch:
                if reader.told[0] == chosen:
                    reader.tell((NOBODY, epoch))
                reader.deliver()
                reader.tell((chosen, epoch))

        self.loop.call_soon(lead, context=reader.process.context)
        for other in self.readers:
            if other is not reader:
                self.later(other, self.network.delay_s(f"c{chosen}", other.process.host))

    def killed(self, node: int) -> None:
        controller = self.controllers.pop(node)
        controller.process.alive = False
        self.readers.remove(controller.reader)
        self.seats[node].reader = None
        if node == self.leader:
            self.leader = NOBODY


# --- calls from brokers to controllers ---------------------------------------------------------------------------


class _Context:
    """What the service asks of gRPC."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def time_remaining(self) -> float:
        return self._timeout_s

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise _failure(code, details)


def _failure(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


@dataclass(eq=False)
class Call:
    """One call under way."""

    caller: Process
    server: Process
    answer: "asyncio.Future[bytes]"
    serving: "asyncio.Task[None] | None" = None

    def broken(self, network: SimNetwork) -> bool:
        """Whether keepalive would find that the other side is gone."""
        linked = network.linked(self.caller.host, self.server.host)
        return not linked or self.caller.paused or self.server.paused


class Rpc:
    """Carries serialised messages between brokers and controllers."""

    def __init__(self, loop: SimLoop, network: SimNetwork, quorum: Quorum) -> None:
        self._loop = loop
        self._network = network
        self._quorum = quorum
        self._calls: dict[Call, None] = {}
        self.buggify: Callable[[str, Process], bool] = lambda point, process: False
        self.dropped_replies = 0

    def open_channel(self, address: str, tls: object = None) -> "SimChannel":
        return SimChannel(self, address)

    def disturbed(self) -> None:
        """A link was cut or a process stopped: if that lasts, keepalive ends the calls."""
        self._loop.call_later(KEEPALIVE_S, self._sweep, context=OUTSIDE)

    def _sweep(self) -> None:
        for call in [call for call in self._calls if call.broken(self._network)]:
            self._break(call)

    def killed(self, process: Process) -> None:
        """The other sides of its calls learn of it, if anything gets through."""
        for call in [call for call in self._calls if process in (call.caller, call.server)]:
            if self._network.linked(call.caller.host, call.server.host):
                delay = self._network.delay_s(call.caller.host, call.server.host)
                self._loop.call_later(delay, self._break, call, context=OUTSIDE)
            else:
                self._loop.call_later(KEEPALIVE_S, self._break, call, context=OUTSIDE)

    def _break(self, call: Call) -> None:
        if self._calls.pop(call, call) is not None:
            return
        self._loop.call_soon(_fail, call.answer, context=call.caller.context)
        if call.serving is not None:
            self._loop.call_soon(call.serving.cancel, context=call.server.context)

    async def call(self, address: str, path: str, data: bytes, timeout_s: float) -> bytes:
        caller = current()
        host = address.partition(":")[0]
        controller = self._quorum.controllers.get(int(host[1:]))
        there = self._network.delay_s(caller.host, host)
        if controller is None:
            await asyncio.sleep(there if self._network.linked(caller.host, host) else timeout_s)
            raise _failure(grpc.StatusCode.UNAVAILABLE, f"nothing answers at {address}")
        call = Call(caller, controller.process, self._loop.create_future())
        self._calls[call] = None
        self._loop.call_later(there, self._serve, call, controller, path, data, timeout_s, context=call.server.context)
        try:
            async with asyncio.timeout(timeout_s):
                return await call.answer
        except TimeoutError:
            raise _failure(grpc.StatusCode.DEADLINE_EXCEEDED, "deadline exceeded") from None
        finally:
            if self._calls.pop(call, call) is None and call.serving is not None:
                back = self._network.delay_s(caller.host, host)
                self._loop.call_later(back, call.serving.cancel, context=call.server.context)

    def _serve(self, call: Call, controller: Controller, path: str, data: bytes, timeout_s: float) -> None:
        if call in self._calls and not self._network.is_cut(call.caller.host, call.server.host):
            answering = self._answer(call, controller, path, data, timeout_s)
            call.serving = self._loop.create_task(answering, name=f"serve {path}")

    async def _answer(self, call: Call, controller: Controller, path: str, data: bytes, timeout_s: float) -> None:
        method = BY_PATH[path]
        message = method.request_message.FromString(data)
        context: Any = _Context(timeout_s)
        reply = await controller.service._serve(method, message, context)
        encoded = reply.SerializeToString()
        if self.buggify(f"reply {method.name}", call.server):
            self.dropped_replies += 1
            self._break(call)
            return
        back = self._network.delay_s(call.server.host, call.caller.host)
        self._loop.call_later(back, self._answered, call, encoded, context=call.caller.context)

    def _answered(self, call: Call, encoded: bytes) -> None:
        if not self._network.is_cut(call.server.host, call.caller.host) and not call.answer.done():
            self._calls.pop(call, None)
            call.serving = None
            call.answer.set_result(encoded)


def _fail(answer: "asyncio.Future[bytes]") -> None:
    if not answer.done():
        answer.set_exception(_failure(grpc.StatusCode.UNAVAILABLE, "the connection broke"))
        answer.exception()


class SimChannel:
    """A gRPC channel, as far as a broker uses it."""

    def __init__(self, rpc: Rpc, address: str) -> None:
        self._rpc = rpc
        self._address = address

    def unary_unary(
        self, path: str, request_serializer: Callable[[Any], bytes], response_deserializer: Callable[[bytes], Any]
    ) -> Callable[..., Any]:
        async def call(message: Any, timeout: float) -> Any:
            return response_deserializer(
                await self._rpc.call(self._address, path, request_serializer(message), timeout)
            )

        return call

    async def close(self) -> None:
        """Nothing is held open."""
