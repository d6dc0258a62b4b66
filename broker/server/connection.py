"""One client's connection: bytes in, answers out, in the order in which the requests came.

All that has arrived is served in one pass, and the answers of a pass leave in one write. A request whose
answer has to wait takes a place in a queue; what is answered behind it waits for its turn there. Only where
the work is done and nothing but the answer is awaited (a produce request that waits for its replicas) do
later requests start meanwhile; behind any other wait the connection stops serving, so that a client sees what
Kafka's one-request-at-a-time shows it.

Frames are views into the receive buffer. Handlers finish with them, or copy, before they return.

A connection stops serving while a wait blocks it, while too many answers are awaited, while the client does not take
its answers, or while it rests because the client has used up a quota or the disk was slow; it stops reading when it has
stopped serving and something is left to serve, or when there is no memory for more of a large request. It never waits
itself, so nothing waits for it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from rookery.broker.quotas.charges import charge
from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.server.access import Guard
from rookery.broker.server.client import Awaited, Call, Client
from rookery.broker.server.connection_slots import ConnectionSlots
from rookery.broker.server.dispatch import Broken, Dispatch, Refused
from rookery.broker.server.lost_transport import GONE
from rookery.broker.server.memory import RequestMemory
from rookery.broker.server.pending import Pending
from rookery.broker.server.request_metrics import RequestMetrics
from rookery.broker.server.settings import ConnectionLimits, ServerSettings
from rookery.broker.server.sweep import Sweep
from rookery.core.clock import Scheduler, Timer
from rookery.core.event_logging import SparingLogger, get_logger
from rookery.core.wire.framing import FrameReader
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.write_pause import HELD_UP_S, WritePause

_log = get_logger("broker.server")

READ_SIZE = 16 * 1024
KEEP_SIZE = 4 * 1024 * 1024
"""A connection's receive buffer begins small, grows with what comes, and shrinks again in silence."""
SILENCE_S = 5.0
LARGE_REQUEST = 256 * 1024
"""When more than this has arrived of a request, it counts against the memory that all of them may use."""
PASS_S = 0.005
"""Longest time one connection may keep the loop before the others get their turn."""
READ_AHEAD = 64 * 1024
"""Unserved bytes a connection may hold before it stops reading: what it needs to notice that a client
left."""
SLOWEST_BYTES_PER_S = 64 * 1024
"""A client that sends or takes large messages gets at least the time this rate needs."""
SLOW_S = 1.0
"""A sender that is further behind the slowest rate loses its memory when another connection needs it."""


class Transport(Protocol):
    """The part of `asyncio.Transport` that a connection uses."""

    def writelines(self, segments: list[Buffer]) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def get_extra_info(self, name: str) -> Any: ...
    def get_write_buffer_size(self) -> int: ...
    def set_write_buffer_limits(self, high: int) -> None: ...


@dataclass(slots=True)
class Shared:
    """What all connections of a server have in common."""

    dispatch: Dispatch
    settings: ServerSettings
    limits: ConnectionLimits
    memory: RequestMemory
    sweep: Sweep
    scheduler: Scheduler
    metrics: RequestMetrics
    clock: Callable[[], float]
    quotas: ClientQuotas
    write_pause: WritePause = field(default_factory=WritePause)
    """While it lasts no client is served: a slow device must not cost the node its place in the cluster."""
    guard: Guard | None = None
    """None: no authorizer, everything is allowed."""
    reserved: str = ""
    """The listener between brokers, if clients have others: its connections get a slot when all are taken."""
    open: dict["Connection", None] = field(default_factory=dict)
    slots: ConnectionSlots = field(init=False)
    sparing: SparingLogger = field(init=False)
    """For events that clients can cause without authentication, as often as they like."""
    _emptied: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.slots = ConnectionSlots(self.limits, self.open, self.reserved)
        self.sparing = SparingLogger(_log, self.clock)

    def closed(self, connection: "Connection") -> None:
        self.open.pop(connection, None)
        if not self.open:
            self._emptied.set()

    async def all_closed(self) -> None:
        """Wait until no connection is open."""
        while self.open:
            self._emptied.clear()
            await self._emptied.wait()


class Connection(asyncio.BufferedProtocol):
    """The shell around one socket."""

    def __init__(self, shared: Shared, listener: str) -> None:
        self._shared = shared
        self._settings = shared.settings
        self._dispatch = shared.dispatch
        self._quotas = shared.quotas
        self._clock = shared.clock
        self._listener = listener
        self._frames = FrameReader(shared.settings.request_bytes_max, READ_SIZE, KEEP_SIZE)
        self._high_water = shared.settings.response_bytes_high_water
        self._queue: deque[Awaited] = deque()
        self._may_be_held = False  # False only if `_held` cannot be true; spares asking after each request
        self._barrier: Awaited | None = None
        self._out: list[Buffer] = []
        self._unsent = 0  # bytes of answers in `_out`
        self._behind = 0  # bytes of answers that are ready but stand behind a wait
        self._counted = False  # whether what has arrived of a large request counts against the memory of all
        self._reading = True
        self._draining = False
        self._scheduled = False
        self._resting: Timer | None = None
        self._rest_until = 0.0
        self._closed = False
        self._finishing = False
        self._sent_until: float | None = None  # when the slowest sender would have sent what is here; None if none may
        self._seen = 0  # bytes of the unfinished request at that time
        self._unwritable_until: float | None = None  # deadline for the client to take its answers
        self._active_at = 0.0
        self._slot = -1

    # --- the transport's calls ---------------------------------------------------------------------------

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        self._transport = transport
        address = _address(transport.get_extra_info("peername"))
        self.client = Client(self._listener, address, guard=self._shared.guard)
        refusal = self._admit(address)
        if refusal is not None:
            self._refuse_connection(refusal)
            return
        self._slot = self._shared.sweep.add(self)
        self._shared.open[self] = None
        self._active_at = self._clock()
        transport.set_write_buffer_limits(self._high_water)
        delay_ms = self._pause_ms(address) if self._quotas.connections_limited else 0
        if delay_ms:
            self._refuse_slowly(delay_ms / 1000)
        else:
            self._begin()

    def _begin(self) -> None:
        """The connection was admitted, and this listener does not ask who the client is."""
        self._keep_place()

    def _keep_place(self) -> bool:
        """The client is known: whether it may stay."""
        refusal = self._shared.slots.keep(self._listener)
        if refusal is not None:
            self._refuse_connection(refusal)
        return refusal is None

    def _refuse_connection(self, limit: str) -> None:
        """Close a connection that exceeds a limit."""
        peer, sparing = self.client.address, self._shared.sparing
        sparing.warning("connection.refused", listener=self._listener, peer=peer, limit=limit)
        self.abort()

    def _admit(self, address: str) -> str | None:
        """Count the connection, or name the option that forbids it."""
        return self._shared.slots.admit(self._listener, address)

    def _pause_ms(self, address: str) -> int:
        """How long a new connection has to wait, because too many came from there."""
        return self._quotas.connected(address)

    def _refuse_slowly(self, seconds: float) -> None:
        """Too many connect from this address: not served, and closed only after a while, to slow them down."""
        self._closed = self._may_be_held = True
        peer, sparing = self.client.address, self._shared.sparing
        sparing.warning("connection.refused", listener=self._listener, peer=peer, limit="connection_creation_rate")
        self._resting = self._shared.scheduler.call_later(seconds, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = self._may_be_held = True
        self._transport = GONE
        if self._slot < 0:
            return
        shared = self._shared
        shared.sweep.remove(self, self._slot)
        shared.limits.release(self.client.address)
        shared.closed(self)
        shared.memory.count(self, 0)
        for awaited in self._queue:
            if awaited.pending is not None:
                awaited.pending.abandon()
                shared.metrics.waiting -= 1
        self._queue.clear()
        self._out.clear()
        if self._resting is not None:
            self._resting.cancel()
        self._frames.drop()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if not self._closed:
            self._frames.received(nbytes)
            self._serve()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._may_be_held = True
        self._unwritable_until = self._time_to_take()

    def _time_to_take(self) -> float:
        """By when a client at the slowest rate allowed has taken what is written."""
        seconds = self._settings.frame_timeout_ms / 1000
        return self._clock() + seconds + self._transport.get_write_buffer_size() / SLOWEST_BYTES_PER_S

    def resume_writing(self) -> None:
        if self._closed:
            return  # the rest has to leave in time, too
        self._unwritable_until = None
        if not self._draining:
            self._serve()

    # --- one pass ----------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Serve what has arrived, as far as order and back-pressure allow, and send the answers."""
        self._draining = True
        before = now = self._clock()
        served = stopped = False
        if before < self._shared.write_pause.until:
            self._rest(self._shared.write_pause.until, before)
        try:
            if not self._held():
                for frame in self._frames.frames():
                    served = True
                    now = self._request(frame, now)
                    stopped = now - before > PASS_S or (self._may_be_held and self._held())
                    if stopped:
                        break
        except (WireError, Refused) as refusal:
            self._refuse(str(refusal))
        except Broken as failure:
            self._broken(failure.call, failure.__cause__ or failure)
        self._active_at = now
        self._shared.metrics.busy_s += now - before
        self._draining = False
        if self._closed:
            return
        self._flush(now)
        if stopped and not self._held():
            self._continue_soon()
        if self._barrier is not None and self._frames.buffered:
            self._hurry(self._barrier)
        if self._may_be_held or self._counted or self._frames.buffered:
            self._note_unfinished(served, now)
            self._regulate()
        else:
            self._sent_until = None
            if not self._reading:
                self._set_reading(True)

    def _hurry(self, barrier: Awaited) -> None:
        """More requests wait behind one that holds them up."""
        pending = barrier.pending
        if pending is not None and pending.on_hurry is not None:
            hurry, pending.on_hurry = pending.on_hurry, None
            hurry()

    def _rest(self, until: float, now: float) -> None:
        """Serve nothing until then; answers still leave."""
        if until <= self._rest_until:
            return
        if self._resting is not None:
            self._resting.cancel()
        self._may_be_held = True
        self._rest_until = until
        self._resting = self._shared.scheduler.call_later(until - now, self._rested)

    def _rested(self) -> None:
        self._resting = None
        if not self._closed:
            self._serve()

    def _held(self) -> bool:
        """Whether serving has to stop."""
        held = (
            self._barrier is not None
            or self._resting is not None
            or self._unwritable_until is not None
            or len(self._queue) >= self._settings.queued_requests_max
            or self._behind > self._high_water
            or self._finishing
            or self._closed
        )
        self._may_be_held = held or bool(self._queue)
        return held

    def _request(self, frame: memoryview, now: float) -> float:
        """One request: from its frame to its answer, or to its place in the queue. Returns the time."""
        call, outcome = self._dispatch.call(frame, self.client)
        handled = self._clock()
        if handled - now > HELD_UP_S and call.route.writes:
            self._shared.write_pause.held_up(handled - now, handled)
        if outcome.__class__ is Pending:
            self._wait(Awaited(call, now, handled, len(frame)), outcome)
            return handled
        route = call.route
        route.metrics.at_once.add(handled - now)
        if self._quotas.limited:
            outcome = self._charge(call, len(frame), outcome, handled - now)
        if outcome is None:
            return handled
        if self._queue:
            self._queue_behind(Awaited(call, now, handled, 0), outcome)
            return handled
        segments, size = route.answer(call.version, call.correlation_id, outcome)
        self._out += segments
        self._unsent += size
        if self._unsent > self._high_water:
            self._write()  # the transport calls pause_writing at once when it has enough
        return handled

    def _charge(self, call: Call, size: int, response: Any, seconds: float) -> Any:
        """A request is done: where its client has used up a quota, the answer says so, and leaves before the
        connection rests."""
        response, delay_ms = charge(self._quotas, call, size, response, seconds)
        if delay_ms:
            call.route.metrics.throttled.add(delay_ms / 1000)
            now = self._clock()
            self._rest(now + delay_ms / 1000, now)
        return response

    def _queue_behind(self, awaited: Awaited, response: Any) -> None:
        """An answer that came at once has to stand behind one that is awaited."""
        awaited.ready(response)
        self._behind += awaited.size
        self._queue.append(awaited)

    def _wait(self, awaited: Awaited, pending: Pending[Any]) -> None:
        awaited.pending = pending
        self._may_be_held = True
        self._queue.append(awaited)
        self._shared.metrics.waiting += 1
        if pending.blocks:
            self._barrier = awaited
            pending.on_release = partial(self._released, awaited)
        pending.receive(partial(self._settled, awaited))

    def _settled(self, awaited: Awaited, response: Any, error: BaseException | None) -> None:
        """An awaited answer has come; it leaves when all before it have."""
        awaited.pending = None
        awaited.settled_at = self._clock()
        self._shared.metrics.waiting -= 1
        if self._closed:
            return
        if isinstance(error, Refused):
            self._refuse(str(error))
            return
        if error is not None:
            self._broken(awaited.call, error)
            return
        if self._quotas.limited:
            seconds = awaited.handled_at - awaited.started_at
            response = self._charge(awaited.call, awaited.request_size, response, seconds)
        try:
            awaited.ready(response)
        except Exception as unwritable:  # the code that completed it has others to answer, too
            self._broken(awaited.call, unwritable)
            return
        self._behind += awaited.size
        self._released(awaited)

    def _released(self, awaited: Awaited) -> None:
        """Later requests need not wait for this one any more."""
        if self._barrier is awaited:
            self._barrier = None
        if not self._draining and not self._closed:
            self._continue_soon()

    def _continue_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._shared.scheduler.call_soon(self._continue)

    def _continue(self) -> None:
        """Once per pass of the loop: send what has become ready, serve what was held back."""
        self._scheduled = False
        if not self._closed:
            now = self._clock()
            self._flush(now)
            if self._finishing and not self._queue:
                self.close()
            elif self._frames.buffered or not self._reading:
                self._serve()
            else:  # nothing was held back
                self._active_at = now

    def _flush(self, now: float) -> None:
        queue = self._queue
        while queue and queue[0].segments is not None:
            awaited = queue.popleft()
            self._out += awaited.segments or ()
            self._behind -= awaited.size
            if awaited.settled_at:
                awaited.call.route.metrics.waited(*awaited.times(now))
        self._write()

    def _write(self) -> None:
        if self._out:
            self._transport.writelines(self._out)
            self._out = []
            self._unsent = 0

    # --- reading -----------------------------------------------------------------------------------------

    def _note_unfinished(self, served: bool, now: float) -> None:
        """Note how far the sender of an unfinished request has come. What arrives buys it time at the slowest
        rate allowed, but no more than has passed: no sender can save up time."""
        buffered = self._frames.buffered
        if buffered == 0 or self._held():
            self._sent_until = None
            return
        if served or self._sent_until is None:
            self._sent_until = now
        else:
            self._sent_until = min(now, self._sent_until + (buffered - self._seen) / SLOWEST_BYTES_PER_S)
        self._seen = buffered

    def _regulate(self) -> None:
        """Decide whether to go on reading."""
        buffered, memory = self._frames.buffered, self._shared.memory
        large = buffered > LARGE_REQUEST
        if large or self._counted:
            self._counted = large
            memory.count(self, buffered if large else 0)
        if self._held():
            self._set_reading(buffered < READ_AHEAD)
        elif large and not memory.may_go_on(self):
            self._sent_until = None
            self._set_reading(False)
        else:
            self._set_reading(True)

    def memory_is_back(self) -> None:
        if not self._closed:
            self._note_unfinished(False, self._clock())
            self._set_reading(not self._held() or self._frames.buffered < READ_AHEAD)

    def is_slow(self) -> bool:
        return self._behind_s() > SLOW_S

    def drop_slow(self) -> None:
        if not self._closed:
            self._refuse(f"a request came too slowly, and others need the memory of its {self._frames.buffered} bytes")

    def _behind_s(self) -> float:
        """How far the sender of an unfinished request is behind the slowest rate allowed."""
        return 0.0 if self._sent_until is None or self._closed else self._clock() - self._sent_until

    def _set_reading(self, wanted: bool) -> None:
        if wanted != self._reading:
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    # --- the end -----------------------------------------------------------------------------------------

    def close_if_overdue(self) -> None:
        """Called now and then: closes a connection that is stuck or idle."""
        now, settings = self._clock(), self._settings
        if self._unwritable_until is not None and now > self._unwritable_until:
            self._refuse("the client does not take its responses")
        elif self._closed:
            return  # what was written is leaving
        elif self._sent_until is not None:
            if self._behind_s() * 1000 > settings.frame_timeout_ms:
                here, size = self._frames.buffered, self._frames.awaited
                self._refuse(f"a request came too slowly: {here} of {size or 'unknown'} bytes are here")
        elif not self._queue and (now - self._active_at) * 1000 > settings.connections_idle_ms_max:
            _log.debug("connection.idle", peer=self.client.address)
            self.close()
        elif now - self._active_at > SILENCE_S:
            self._frames.shrink()

    @property
    def listener(self) -> str:
        return self._listener

    @property
    def active_at(self) -> float:
        """When it was last served."""
        return self._active_at

    @property
    def is_closed(self) -> bool:
        return self._closed

    def give_way(self, reason: str) -> None:
        """Close: another connection needs its place."""
        peer, sparing = self.client.address, self._shared.sparing
        sparing.warning("connection.dropped", listener=self._listener, peer=peer, reason=reason)
        self.abort()

    @property
    def is_busy(self) -> bool:
        """Whether a request is arriving or an answer is awaited."""
        return bool(self._queue or self._frames.buffered)

    @property
    def unsent_bytes(self) -> int:
        """Answers that the client has not taken."""
        return self._unsent + self._behind + self._transport.get_write_buffer_size()

    def close(self) -> None:
        """End the connection once what was written is sent; a client that does not take it has its time and no
        more, and the memory of what it sent is free at once."""
        self._closed = self._may_be_held = True
        self._shared.memory.count(self, 0)
        if self._unwritable_until is None and self._transport.get_write_buffer_size():
            self._unwritable_until = self._time_to_take()
        self._transport.close()

    def finish(self) -> None:
        """Take no further requests and close when the last answer has left. A long poll has none to give."""
        self._finishing = self._may_be_held = True
        if all(awaited.can_be_dropped for awaited in self._queue):
            self.close()

    def abort(self) -> None:
        self._closed = self._may_be_held = True
        self._transport.abort()

    def _refuse(self, reason: str) -> None:
        """An error of the client: log it once, and close the connection."""
        self._flush(self._clock())
        peer, sparing = self.client.address, self._shared.sparing
        sparing.warning("connection.dropped", listener=self._listener, peer=peer, reason=reason)
        self.close() if self._unwritable_until is None else self.abort()

    def _broken(self, call: Call, error: BaseException) -> None:
        """An error of this broker. No answer would be right: a producer that gets an unknown error may drop or repeat
        what was written, while a lost connection makes it ask again."""
        peer, api = self.client.address, call.route.name
        _log.exception("request.failed", error, peer=peer, api=api, version=call.version)
        call.route.metrics.error("CONNECTION_CLOSED")
        self._closed = self._may_be_held = True
        self._transport.abort()


def _address(peer: Any) -> str:
    return str(peer[0]) if isinstance(peer, tuple) and peer else "local"
