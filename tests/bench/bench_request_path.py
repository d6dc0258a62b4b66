"""CPU of one request on its way through a broker: frame, dispatch, handler, log, answer; sockets left out.

A real connection is fed frames as a transport would and writes into a transport that counts. The log is in
files. Machines are busy, and CPU time stretches with that: so each turn is measured between two turns of a
fixed piece of work (unpacking batch headers), and the median of the ratios counts. `us` is that ratio times
0.25 us, which the fixed work took on the machine the goals were set on; `best` is the shortest turn as it
was.
"""

import gc
import struct
import tempfile
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import uvloop
from immutables import Map

from rookery.broker.server.access import Guard
from rookery.broker.server.connection import Connection, Shared
from rookery.broker.server.sweep import Sweep
from rookery.core.clock import SystemClock
from rookery.core.disk import FileDisk
from rookery.core.metadata.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from rookery.core.metadata.client_quotas import CLIENT_ID, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from rookery.core.metadata.image import AccessControlEntry, QuotaEntity
from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from rookery.core.security.authorizer import AclIndex, Authorizer
from rookery.core.security.principal import KafkaPrincipal
from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic, ReplicaState
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.header import read_response_header, request_frame
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.records import Record, build_batch
from rookery.core.write_pause import WritePause
from tests.unit.broker.one_broker import LISTENER, NODE_ID, OneBroker
from tests.unit.broker.server.fakes import FakeScheduler
from tests.unit.broker.talk import fetch_request, produce_request

TURNS = 300
ACLS = 1000
USER = KafkaPrincipal("User", "bench")
KEPT = 8
PARTITIONS = {"one": 1, "sixteen": 16, "hundred": 100, "thousand": 1000}
FIXED = 500
UNPACK_US = 0.25
_HEADER, _ZEROS = struct.Struct(">qiibIhiqqqhii"), bytes(100)



class CountingTransport:
    """Takes everything at once."""

    def __init__(self) -> None:
        self.bytes = 0
        self.kept: list[Buffer] = []
        """The answers since this was emptied, up to a bound."""

    def writelines(self, segments: list[Buffer]) -> None:
        self.bytes += sum(map(len, segments))
        if len(self.kept) < KEPT:
            self.kept += segments

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None:
        raise AssertionError("the broker closed the connection")

    abort = close

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None: ...


def frame(api: Api[Any, Any], version: int, request: Any) -> bytes:
    return b"".join(bytes(part) for part in request_frame(api, version, 1, "bench", request))


def batch(records: int, size: int) -> bytes:
    now_ms = SystemClock().wall_ms()
    return bytes(build_batch([Record(number, now_ms, b"key", b"x" * size) for number in range(records)]))


def _timed(work: Callable[[], object]) -> int:
    begun = time.process_time_ns()
    work()
    return time.process_time_ns() - begun


def _fixed_work() -> None:
    for _ in range(FIXED):
        _HEADER.unpack_from(_ZEROS, 0)


def measure(work: Callable[[], object], per_turn: int, turns: int = TURNS) -> tuple[float, float]:
    """Microseconds of CPU for one of the `per_turn` things that `work` does: normal, and best."""
    work()
    gc.collect()
    gc.disable()
    try:
        ratios, times = [], []
        before = _timed(_fixed_work)
        for _ in range(turns):
            taken, after = _timed(work), _timed(_fixed_work)
            times.append(taken)
            ratios.append(taken / (before + after) * 2)
            before = after
    finally:
        gc.enable()
    return median(ratios) * FIXED * UNPACK_US / per_turn, min(times) / per_turn / 1000


class NoWritePause(WritePause):
    """The loop here has no time that passes, so nobody may wait for it on a busy machine."""

    def held_up(self, held_s: float, now: float) -> None:
        pass


class Bench:
    """One connection to a broker on files."""

    def __init__(
        self,
        broker: OneBroker,
        loop: FakeScheduler,
        guard: Guard | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        server, self.loop = broker.server, loop
        shared = Shared(
            server.dispatch, server.settings, server.limits, server.memory, Sweep(self.loop, 60.0), self.loop,
            server.requests, clock, server.quotas, NoWritePause(), guard,
        )  # fmt: skip
        self._guard = guard
        self.transport = CountingTransport()
        self.connection = Connection(shared, LISTENER)
        self.connection.connection_made(self.transport)
        if guard is not None:
            self.connection.client.identify(USER)

    @property
    def denied(self) -> int:
        return 0 if self._guard is None else self._guard.denied

    def feed(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            room = self.connection.get_buffer(-1)
            taken = min(len(room), len(rest))
            room[:taken] = rest[:taken]
            self.connection.buffer_updated(taken)
            rest = rest[taken:]
        if not self.loop.is_idle:
            self.loop.run()

    def cost(self, name: str, request: bytes, pipelined: int) -> None:
        data = request * pipelined
        each_us, best_us = measure(lambda: self.feed(data), pipelined)
        before = self.transport.bytes
        self.feed(request)
        moved = max(len(request), self.transport.bytes - before) / 1e6
        per_mb = f"{each_us / 1000 / moved:8.3f} ms/MB" if moved > 0.01 else ""
        print(f"{name:44} {each_us:9.2f} us   best {best_us:9.2f}  {per_mb}")


def with_authorizer(broker: OneBroker, loop: FakeScheduler, plain: Bench) -> None:
    """What ACLs cost: turns with and without an authorizer by turns, and the median of their ratios."""
    topic, allow = AclResourceType.TOPIC, AclPermission.ALLOW
    others = [
        AccessControlEntry(
            topic, f"topic-{n}", PatternType(3 + n % 2), f"User:{n % 50}", "*", AclOperation.READ, allow
        )
        for n in range(ACLS)
    ]
    mine = [
        AccessControlEntry(topic, name, PatternType.LITERAL, str(USER), "*", AclOperation.ALL, allow)
        for name in PARTITIONS
    ]
    guarded = Bench(broker, loop, Guard(Authorizer(AclIndex.of([*others, *mine]))))
    for name, request, pipelined in (
        ("Produce, 1 record", frame(PRODUCE, 9, produce_request("one", batch(1, 100))), 20),
        ("Fetch, nothing new", frame(FETCH, 12, fetch_request("sixteen", 0)), 20),
        ("Fetch, 16 KB", frame(FETCH, 12, fetch_request("one", 0, partition_max_bytes=16_384)), 5),
    ):
        data = request * pipelined
        ratios = []
        gc.collect()
        gc.disable()
        for number in range(2 * TURNS):
            first, second = (plain, guarded) if number % 2 else (guarded, plain)
            one, other = _timed(partial(first.feed, data)), _timed(partial(second.feed, data))
            ratios.append(other / one if first is plain else one / other)
        gc.enable()
        print(f"{name + ', with an authorizer':44} {100 * (median(ratios) - 1):+8.1f} %")
    assert not guarded.denied, "a bench of what is denied"
    guarded.connection.connection_lost(None)


def follow_all(bench: Bench, broker: OneBroker, topic: str, count: int) -> None:
    """A follower's fetch session over many partitions, of which one has grown each time."""
    for partition in broker.partitions:
        if partition.topic == topic:
            state, members = partition.state, (NODE_ID, 2)
            partition.apply(state._replace(replicas=members, isr=members, partition_epoch=state.partition_epoch + 1))
    follower = ReplicaState(replica_id=2)
    grown = broker.partition(topic)
    topic_id, last, one = grown.topic_id, 0, bytearray(batch(1, 100))

    def ask(epoch: int, session: int, offsets: dict[int, int], max_wait_ms: int = 0) -> bytes:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=0)
            for index, offset in offsets.items()
        ]
        topics = [FetchTopic(topic_id=topic_id, partitions=partitions)] if partitions else []
        return frame(FETCH, 15, FetchRequest(
            replica_state=follower, max_wait_ms=max_wait_ms, min_bytes=1, session_id=session, session_epoch=epoch,
            topics=topics,
        ))  # fmt: skip

    bench.transport.kept.clear()
    bench.feed(ask(0, 0, dict.fromkeys(range(count), 0)))
    answer = b"".join(bench.transport.kept)
    session = FETCH.decode_response(15, answer, 4 + read_response_header(FETCH, 15, answer[4:])[1]).session_id
    epoch = 0

    def turn(wait: bool) -> None:
        nonlocal epoch, last
        epoch += 1
        moved = {0: last}
        if wait:
            bench.feed(ask(epoch, session, moved, 500))
        grown.append_as_leader(one[:], 1, SystemClock().wall_ms())
        last += 1
        if not wait:
            bench.feed(ask(epoch, session, moved))
        else:
            bench.loop.run()

    for wait in (False, True):
        each_us, best_us = measure(lambda wait=wait: turn(wait), 1, turns=60)  # type: ignore[misc]
        name = f"Follower's Fetch, {count} partitions, " + ("waited" if wait else "at once")
        print(f"{name:44} {each_us:9.2f} us   best {best_us:9.2f}")


async def run(folder: str) -> None:
    broker = OneBroker(disk=FileDisk(), folder=folder, scheduler=(loop := FakeScheduler()))
    broker.register(9092)
    topics = [NewTopic(name, count, 1) for name, count in PARTITIONS.items()]
    await broker.cluster.ask(CreateTopicsRequest(tuple(topics)))
    bench = Bench(broker, loop)
    for acks in (1, -1):
        small = frame(PRODUCE, 9, produce_request("one", batch(1, 100), acks=acks))
        bench.cost(f"Produce, 1 record, acks={acks}, pipelined", small, 20)
    bench.cost("Produce, 16 KB batch", frame(PRODUCE, 9, produce_request("one", batch(100, 150))), 5)
    bench.cost("Produce, 1 MB batch", frame(PRODUCE, 9, produce_request("one", batch(1000, 1000))), 1)
    bench.cost("Fetch, nothing new", frame(FETCH, 12, fetch_request("sixteen", 0)), 20)
    many = fetch_request("one", 0, partition_max_bytes=16_384)
    bench.cost("Fetch, 16 KB", frame(FETCH, 12, many), 5)
    large = broker.partition("one").log.end_offset - 3000
    bench.cost("Fetch, 1 MB", frame(FETCH, 12, fetch_request("one", large, partition_max_bytes=1 << 20)), 1)
    wanted = ListOffsetsTopic(name="one", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    bench.cost("ListOffsets, latest", frame(LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, topics=[wanted])), 20)
    for name in ("one", "hundred"):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        bench.cost(f"Metadata, topic {name!r}", frame(METADATA, 12, request), 5)
    bench.cost("ApiVersions", frame(API_VERSIONS, 0, ApiVersionsRequest()), 20)
    small = frame(PRODUCE, 9, produce_request("one", batch(1, 100)))
    for whose, client_id in (("no", None), ("another client's", "other"), ("its own", "bench")):
        keys = Map(dict.fromkeys((PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE), 1e12))
        broker.client_quotas.apply(Map({(QuotaEntity(CLIENT_ID, client_id),): keys} if client_id else {}))
        bench.cost(f"Produce, 1 record, with {whose} quota", small, 20)
    broker.client_quotas.apply(Map())
    with_authorizer(broker, loop, bench)
    follow_all(bench, broker, "thousand", 1000)
    bench.connection.connection_lost(None)
    await broker.stop()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rookery-bench-") as folder:
        uvloop.run(run(folder))
