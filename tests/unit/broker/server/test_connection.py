"""Connections: order, back-pressure both ways, bounds, and what ends them."""

import logging
from struct import pack
from typing import Any

import pytest

from rookery.broker.server.client import Call
from rookery.broker.server.connection import PASS_S, READ_AHEAD, READ_SIZE, SILENCE_S, SLOWEST_BYTES_PER_S
from rookery.broker.server.dispatch import BYTES_MAX
from rookery.broker.server.pending import Pending
from rookery.core.wire.apis.metadata import METADATA
from rookery.core.write_pause import PAUSE_S_MAX
from tests.unit.broker.server.rig import Rig, answer, frame_of

# --- one pass ---------------------------------------------------------------------------------------------


@pytest.mark.row(144)
def test_many_frames_of_one_read_are_answered_in_one_write() -> None:
    rig = Rig()
    client = rig.client()
    client.receive(b"".join(frame_of(str(number)) for number in range(50)))
    assert len(client.transport.writes) == 1
    assert client.answers() == [str(number) for number in range(50)]


@pytest.mark.parametrize("step", [1, 3, 7, 64])
def test_frames_may_arrive_in_any_pieces(step: int) -> None:
    rig = Rig()
    client = rig.client()
    client.receive(frame_of("a") + frame_of("b", filler=500) + frame_of("c"), step)
    assert client.answers() == ["a", "b", "c"]


def test_a_handler_without_an_answer_sends_no_frame() -> None:
    rig = Rig(lambda name, call: None if name == "quiet" else answer(name))
    client = rig.client()
    client.receive(frame_of("quiet") + frame_of("loud"))
    assert client.answers() == ["loud"]


def test_one_connection_does_not_keep_the_loop_for_long() -> None:
    """A pass ends after a while, and the rest is served in the next one."""
    rig = Rig()

    def slow(name: str, call: Call) -> Any:
        rig.scheduler.now += PASS_S * 0.6
        return answer(name)

    rig.handler._script = slow
    client = rig.client()
    client.receive(b"".join(frame_of(str(number)) for number in range(10)))
    assert len(rig.handler.handled) == 2
    assert client.answers() == [str(number) for number in range(10)]
    assert rig.scheduler.passes >= 4


def test_after_a_write_that_held_up_the_loop_nobody_is_served_for_as_long_again() -> None:
    """A slow device becomes back-pressure: heartbeats and elections get half of the time."""
    rig = Rig()
    rig.shared.dispatch._routes[METADATA.key].writes = True

    def slow(name: str, call: Call) -> Any:
        rig.scheduler.now += 0.4 if name.startswith("slow") else 0.0
        return answer(name)

    rig.handler._script = slow
    writer, other = rig.client(), rig.client()
    writer.receive(frame_of("slow-1") + frame_of("slow-2"))
    other.receive(frame_of("small"))
    assert writer.answers() == ["slow-1"]
    assert other.answers() == []
    rig.scheduler.advance(0.39)
    assert rig.handler.handled == ["slow-1"]
    rig.scheduler.advance(1.0)
    assert (writer.answers(), other.answers()) == (["slow-2"], ["small"])


def test_a_pause_is_bounded_and_ends_with_its_connection() -> None:
    rig = Rig()
    rig.shared.write_pause.held_up(60.0, rig.scheduler.now)
    client, leaver = rig.client(), rig.client()
    client.receive(frame_of("late"))
    leaver.receive(frame_of("gone"))
    leaver.leave()
    rig.scheduler.advance(PAUSE_S_MAX)
    assert client.answers() == ["late"]
    assert rig.handler.handled == ["late"]


# --- order ------------------------------------------------------------------------------------------------


class Waits:
    """Requests named wait-* are answered when the test says so; those named free-* let others start."""

    def __init__(self) -> None:
        self.pending: dict[str, Pending[Any]] = {}

    def __call__(self, name: str, call: Call) -> Any:
        if name.startswith(("wait", "free")):
            self.pending[name] = Pending(blocks=name.startswith("wait"))
            return self.pending[name]
        return answer(name)

    def finish(self, name: str) -> None:
        self.pending[name].complete(answer(name))


@pytest.mark.row(20)
def test_answers_keep_the_order_of_requests_whatever_is_ready_first() -> None:
    waits = Waits()
    rig = Rig(waits)
    client = rig.client()
    client.receive(frame_of("free-1") + frame_of("free-2") + frame_of("now") + frame_of("free-3"))
    assert rig.handler.handled == ["free-1", "free-2", "now", "free-3"]
    waits.finish("free-3")
    waits.finish("free-2")
    assert client.answers() == []
    waits.finish("free-1")
    assert client.answers() == ["free-1", "free-2", "now", "free-3"]


def test_behind_a_request_that_blocks_nothing_starts() -> None:
    waits = Waits()
    rig = Rig(waits)
    client = rig.client()
    client.receive(frame_of("free-1") + frame_of("wait-1") + frame_of("later"))
    assert rig.handler.handled == ["free-1", "wait-1"]
    waits.finish("wait-1")
    assert client.answers() == []
    assert rig.handler.handled == ["free-1", "wait-1", "later"]
    waits.finish("free-1")
    assert client.answers() == ["free-1", "wait-1", "later"]


@pytest.mark.row(20)
def test_behind_a_request_whose_work_is_done_others_start() -> None:
    """It blocks while it works, and lets others start when only its answer is awaited; that still comes first."""
    waits = Waits()
    rig = Rig(waits)
    client = rig.client()
    client.receive(frame_of("wait-1") + frame_of("later"))
    answered: Pending[Any] = Pending(blocks=False)
    waits.pending["wait-1"].follow(answered)
    assert client.answers() == []
    assert rig.handler.handled == ["wait-1", "later"]
    client.connection.finish()
    assert client.is_open, "what was done has to be answered"
    answered.complete(answer("wait-1"))
    assert client.answers() == ["wait-1", "later"]


def test_an_answer_that_cannot_be_written_ends_its_own_connection_alone() -> None:
    """Whoever completes it, a rebalance for instance, has others to answer."""
    waits = Waits()
    rig = Rig(waits)
    first, second = rig.client(), rig.client()
    first.receive(frame_of("wait-1"))
    second.receive(frame_of("wait-2"))
    waits.pending["wait-1"].complete("not an answer")
    waits.finish("wait-2")
    assert first.transport.aborted
    assert second.answers() == ["wait-2"]


def test_answers_that_become_ready_together_leave_in_one_write() -> None:
    waits = Waits()
    rig = Rig(waits)
    client = rig.client()
    client.receive(b"".join(frame_of(f"free-{number}") for number in range(20)))
    for number in range(20):
        waits.finish(f"free-{number}")
    rig.scheduler.run()
    assert len(client.transport.writes) == 1
    assert len(client.answers()) == 20


def test_one_waiting_connection_does_not_hold_up_another() -> None:
    rig = Rig(Waits())
    waiting, other = rig.client(), rig.client()
    waiting.receive(frame_of("wait-1") + frame_of("behind"))
    other.receive(frame_of("free") + frame_of("now")[:3])
    other.receive(frame_of("now")[3:])
    assert "now" in rig.handler.handled


def test_a_pending_that_is_complete_already_is_answered_in_the_same_pass() -> None:
    def script(name: str, call: Call) -> Any:
        pending: Pending[Any] = Pending()
        pending.complete(answer(name))
        return pending

    rig = Rig(script)
    client = rig.client()
    client.receive(frame_of("a") + frame_of("b"))
    assert rig.scheduler.is_idle
    assert client.answers() == ["a", "b"]


def test_a_client_that_leaves_abandons_what_it_waited_for() -> None:
    waits = Waits()
    rig = Rig(waits)
    client = rig.client()
    client.receive(frame_of("free-1") + frame_of("wait-1"))
    abandoned = []
    for name, pending in waits.pending.items():
        pending.on_abandon = lambda name=name: abandoned.append(name)
    assert rig.metrics.waiting == 2
    client.leave()
    assert abandoned == ["free-1", "wait-1"]
    assert rig.metrics.waiting == 0
    waits.finish("free-1")
    assert client.answers() == []


# --- back-pressure ----------------------------------------------------------------------------------------


@pytest.mark.row(138, 139)
def test_too_many_waiting_requests_stop_the_serving_and_then_the_reading() -> None:
    waits = Waits()
    rig = Rig(waits, queued_requests_max=3)
    client = rig.client()
    client.receive(b"".join(frame_of(f"free-{number}") for number in range(5)))
    assert len(rig.handler.handled) == 3
    assert client.transport.reading, "a little may still arrive: that is how a lost client is noticed"
    client.receive(frame_of("free-5", filler=READ_AHEAD))
    assert not client.transport.reading
    waits.finish("free-0")
    assert client.answers() == ["free-0"]
    assert len(rig.handler.handled) == 4
    for number in range(1, 6):
        waits.finish(f"free-{number}")
        assert client.answers() == [f"free-{number}"]
    assert client.transport.reading


def test_a_client_that_does_not_take_its_answers_is_not_read_from() -> None:
    rig = Rig()
    client = rig.client()
    client.connection.pause_writing()
    client.receive(frame_of("a") + frame_of("b", filler=READ_AHEAD))
    assert rig.handler.handled == []
    assert not client.transport.reading
    client.connection.resume_writing()
    assert client.answers() == ["a", "b"]
    assert client.transport.reading


def test_large_answers_are_handed_over_before_the_next_request_is_served() -> None:
    """So many pipelined requests cannot pile up answers: the transport says stop after the first."""
    rig = Rig(lambda name, call: answer(name, filler=2000), response_bytes_high_water=1000)
    client = rig.client()
    write = client.transport.writelines

    def full(segments: Any) -> None:
        write(segments)
        client.connection.pause_writing()

    client.transport.writelines = full  # type: ignore[method-assign]
    client.receive(b"".join(frame_of(str(number)) for number in range(10)))
    assert rig.handler.handled == ["0"]
    client.connection.resume_writing()
    assert rig.handler.handled == ["0", "1"]
    assert client.transport.high_water == 1000


def test_answers_behind_a_wait_are_bounded_too() -> None:
    waits = Waits()
    rig = Rig(
        lambda name, call: waits(name, call) if name == "free" else answer(name, filler=600),
        response_bytes_high_water=1000,
    )
    client = rig.client()
    client.receive(frame_of("free") + b"".join(frame_of(str(number)) for number in range(10)))
    assert rig.handler.handled == ["free", "0", "1"]
    waits.finish("free")
    assert client.answers() == ["free", *(str(number) for number in range(10))]


# --- what ends a connection -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("a negative size", pack(">i", -1)),
        ("a size above the limit", pack(">i", 5001)),
        ("no header", pack(">i", 3) + b"abc"),
        ("an unknown api", pack(">i", 10) + pack(">hhih", 99, 0, 1, -1)),
        ("an unknown version", pack(">i", 10) + pack(">hhih", 3, 99, 1, -1)),
        ("a body that is cut short", pack(">i", 12) + pack(">hhih", 3, 1, 1, -1) + b"\0\0"),
        ("a client id beyond the frame", pack(">i", 12) + pack(">hhih", 3, 1, 1, 500) + b"ab"),
    ],
)
@pytest.mark.attack(5)
def test_a_malformed_frame_closes_its_own_connection_with_one_line(
    what: str, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(request_bytes_max=5000)
    client, other = rig.client(), rig.client()
    with caplog.at_level(logging.DEBUG, "rookery"):
        client.receive(frame_of("before") + data + frame_of("after"))
    assert not client.is_open, what
    assert client.answers() == ["before"]
    assert [record.getMessage() for record in caplog.records] == ["connection.dropped"]
    other.receive(frame_of("undisturbed"))
    assert other.answers() == ["undisturbed"]


@pytest.mark.attack(13)
def test_a_request_without_records_that_is_too_large_is_not_read() -> None:
    rig = Rig()
    client = rig.client()
    client.receive(frame_of("large", filler=BYTES_MAX - len(frame_of("large")) + 4))
    assert (rig.handler.handled, client.is_open) == (["large"], True)
    client.receive(frame_of("larger", filler=BYTES_MAX))
    assert (rig.handler.handled, client.is_open) == (["large"], False)


def test_a_handler_that_breaks_closes_its_own_connection(caplog: pytest.LogCaptureFixture) -> None:
    def script(name: str, call: Call) -> Any:
        raise ZeroDivisionError("a bug")

    rig = Rig(script)
    client, other = rig.client(), rig.client()
    client.receive(frame_of("boom") + frame_of("never"))
    assert client.transport.aborted
    assert rig.handler.handled == ["boom"]
    assert [record.getMessage() for record in caplog.records] == ["request.failed"]
    assert other.is_open


def test_a_wait_that_breaks_closes_its_own_connection() -> None:
    waits = Waits()
    client = Rig(waits).client()
    client.receive(frame_of("wait-1"))
    waits.pending["wait-1"].fail(ZeroDivisionError("a bug"))
    assert client.transport.aborted


def test_a_request_that_arrives_a_byte_at_a_time_is_given_up() -> None:
    rig = Rig(frame_timeout_ms=30_000)
    slow, other = rig.client(), rig.client()
    for byte in frame_of("slow")[:20]:
        slow.receive(bytes([byte]))
        rig.scheduler.advance(1.0)
        other.receive(frame_of("quick"))
        assert other.answers() == ["quick"]
    assert slow.is_open
    rig.scheduler.advance(12.0)
    assert not slow.is_open
    assert other.is_open


def test_a_large_request_gets_the_time_it_needs() -> None:
    rig = Rig(frame_timeout_ms=1000)
    client = rig.client()
    large = frame_of("large", filler=10 * SLOWEST_BYTES_PER_S)
    for start in range(0, len(large), SLOWEST_BYTES_PER_S):
        rig.scheduler.advance(1.0)
        client.receive(large[start : start + SLOWEST_BYTES_PER_S])
    assert client.answers() == ["large"]


def test_what_was_sent_early_buys_no_time_to_be_silent_later() -> None:
    rig = Rig(frame_timeout_ms=1000)
    client = rig.client()
    client.receive(frame_of("large", filler=50 * SLOWEST_BYTES_PER_S)[: 40 * SLOWEST_BYTES_PER_S])
    rig.scheduler.advance(2.1)
    assert not client.is_open


def test_what_was_only_announced_buys_no_time() -> None:
    rig = Rig(frame_timeout_ms=1000)
    client = rig.client()
    client.receive(frame_of("large", filler=50 * SLOWEST_BYTES_PER_S)[:14])
    rig.scheduler.advance(2.1)
    assert not client.is_open


def test_time_spent_waiting_for_us_does_not_count_against_the_client() -> None:
    waits = Waits()
    rig = Rig(waits, frame_timeout_ms=1000)
    client = rig.client()
    client.receive(frame_of("wait-1") + frame_of("next")[:10])
    rig.scheduler.advance(60.0)
    assert client.is_open
    waits.finish("wait-1")
    assert client.answers() == ["wait-1"]
    client.receive(frame_of("next")[10:])
    assert client.answers() == ["next"]


def test_a_client_that_never_takes_its_answers_is_given_up() -> None:
    rig = Rig(frame_timeout_ms=1000)
    client = rig.client()
    client.transport.buffered = 64 * 1024 * 5
    client.connection.pause_writing()
    rig.scheduler.advance(6.0)
    assert client.is_open
    rig.scheduler.advance(1.5)
    assert client.transport.aborted


def test_a_closed_connection_whose_client_takes_nothing_does_not_stay() -> None:
    """A process that hangs keeps its connection alive: what was written to it never leaves."""
    rig = Rig(connections_idle_ms_max=10_000, frame_timeout_ms=1000)
    client = rig.client()
    client.receive(frame_of("a"))
    client.transport.buffered = 64 * 1024 * 5  # less than would pause the writing
    rig.scheduler.advance(12.0)
    assert not client.is_open
    client.connection.resume_writing()  # some of it left
    rig.scheduler.advance(3.0)
    assert not client.transport.aborted
    rig.scheduler.advance(5.0)
    assert client.transport.aborted


def test_line_11_idle_connections_are_closed_silently(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(connections_idle_ms_max=600_000)
    idle, busy = rig.client(), rig.client()
    with caplog.at_level(logging.INFO, "rookery"):
        for _ in range(11):
            busy.receive(frame_of("x"))
            rig.scheduler.advance(60.0)
    assert not idle.is_open
    assert not idle.transport.aborted, "what was written still leaves"
    assert busy.is_open
    assert caplog.records == []


def test_line_11_a_connection_that_waits_for_an_answer_is_not_idle() -> None:
    waits = Waits()
    rig = Rig(waits, connections_idle_ms_max=1000)
    client = rig.client()
    client.receive(frame_of("wait-1"))
    rig.scheduler.advance(60.0)
    waits.finish("wait-1")
    assert client.answers() == ["wait-1"]


# --- limits -----------------------------------------------------------------------------------------------


def test_no_more_connections_than_allowed() -> None:
    rig = Rig(connections_max=2)
    first, second, third = rig.client(), rig.client("10.0.0.2"), rig.client("10.0.0.3")
    assert (first.is_open, second.is_open, third.transport.aborted) == (True, True, True)
    third.leave()
    first.leave()
    assert rig.client("10.0.0.4").is_open
    assert rig.limits.count == 2


def test_no_more_connections_from_one_address_than_allowed() -> None:
    rig = Rig(connections_per_ip_max=1, connections_per_ip_overrides={"10.0.0.2": 2, "10.0.0.3": 0})
    opened = [rig.client(f"10.0.0.{host}").is_open for host in (1, 1, 2, 2, 2, 3)]
    assert opened == [True, False, True, True, False, False]


def test_a_refused_connection_handles_nothing() -> None:
    rig = Rig(connections_max=0)
    client = rig.client()
    client.connection.buffer_updated(0)
    client.leave()
    assert (rig.handler.handled, rig.limits.count) == ([], 0)


# --- the end of the server --------------------------------------------------------------------------------


def test_finishing_lets_the_last_answers_leave() -> None:
    waits = Waits()
    rig = Rig(waits)
    client, idle = rig.client(), rig.client()
    client.receive(frame_of("wait-1") + frame_of("too late"))
    client.connection.finish()
    idle.connection.finish()
    assert (client.is_open, idle.is_open) == (True, False)
    waits.finish("wait-1")
    assert client.answers() == ["wait-1"]
    assert not client.is_open
    assert rig.handler.handled == ["wait-1"]


def test_finishing_does_not_wait_for_a_long_poll() -> None:
    waits = Waits()
    rig = Rig(waits)
    client = rig.client()
    client.receive(frame_of("wait-1"))
    waits.pending["wait-1"].on_abandon = lambda: None
    client.connection.finish()
    assert not client.is_open


# --- what is measured -------------------------------------------------------------------------------------


@pytest.mark.row(139, 141)
def test_requests_are_counted_and_timed_by_api() -> None:
    waits = Waits()
    rig = Rig(waits)
    client = rig.client()
    client.receive(frame_of("a") + frame_of("b") + frame_of("wait-1"))
    rig.scheduler.advance(2.0)
    waits.finish("wait-1")
    client.answers()
    route = rig.metrics.route("Metadata")
    assert route.versions == {12: 3}
    assert (route.times("total").count, route.times("local").count, route.times("remote").count) == (3, 3, 1)
    assert route.times("remote").sum_s == pytest.approx(2.0)
    assert route.times("total").quantile_ms(0.99) > 1000



# --- memory -----------------------------------------------------------------------------------------------


def test_a_receive_buffer_grows_with_what_comes_and_shrinks_in_silence() -> None:
    rig = Rig()
    client = rig.client()
    assert len(client.connection.get_buffer(-1)) == READ_SIZE
    client.receive(frame_of("large", filler=1 << 20))
    assert client.answers() == ["large"]
    assert len(client.connection.get_buffer(-1)) > READ_SIZE, "the next large request finds its place"
    rig.scheduler.advance(SILENCE_S + 2.0)
    assert len(client.connection.get_buffer(-1)) == READ_SIZE
