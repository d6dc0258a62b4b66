"""Memory for requests that are arriving: it follows what has arrived, and slow senders do not keep it from others."""

import resource
from pathlib import Path
from struct import pack

from rookery.broker.server.connection import LARGE_REQUEST, SLOW_S, SLOWEST_BYTES_PER_S
from rookery.broker.server.memory import TURN_S, RequestMemory
from tests.unit.broker.server.rig import Rig, RigClient, frame_of

LARGE = frame_of("large", filler=4 * LARGE_REQUEST)
HALF = LARGE[: len(LARGE) // 2]
REST = LARGE[len(LARGE) // 2 :]


def test_an_announced_size_takes_no_memory_and_nobody_waits_for_it() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    rig = Rig(queued_request_bytes_max=64 << 20)
    clients = [rig.client() for _ in range(7)]
    before = resident()
    for client in clients:
        client.receive(pack(">i", 100_000_000) + bytes(10))
    assert resident() - before < 16 << 20
    assert rig.memory.used == 0
    honest = rig.client()
    honest.receive(LARGE)
    assert honest.answers() == ["large"]


def test_what_has_arrived_of_large_requests_counts_until_they_are_served() -> None:
    rig = Rig()
    client, small, gone = rig.client(), rig.client(), rig.client()
    client.receive(HALF)
    small.receive(frame_of("small", filler=LARGE_REQUEST // 2)[:LARGE_REQUEST])
    assert rig.memory.used == len(HALF)
    gone.receive(HALF)
    assert rig.memory.used == 2 * len(HALF)
    client.receive(REST)
    gone.leave()
    assert client.answers() == ["large"]
    assert rig.memory.used == 0


def test_when_memory_is_used_up_one_goes_on_and_the_others_follow() -> None:
    rig = Rig(queued_request_bytes_max=2 * len(HALF))
    clients = [rig.client() for _ in range(4)]
    for client in clients:
        client.receive(HALF)
    assert [client.transport.reading for client in clients] == [True, True, False, False]
    for client in clients:
        client.receive(REST)
    small = rig.client()
    small.receive(frame_of("small"))
    assert small.answers() == ["small"], "small requests are not in need of it"
    answered: list[str] = []
    for _ in clients:
        answered += [text for client in clients for text in client.answers()]
    assert answered == ["large"] * 4
    assert (rig.memory.used, rig.memory.waiting) == (0, 0)


def stalled(rig: Rig, count: int) -> list[RigClient]:
    """Clients that sent half of a large request, as long as they were let, and then nothing."""
    clients = [rig.client() for _ in range(count)]
    for client in clients:
        client.receive(HALF)
    return clients


def test_an_honest_request_passes_the_stalled_ones() -> None:
    rig = Rig(queued_request_bytes_max=3 * len(HALF))
    stalled(rig, 3)
    honest = rig.client()
    honest.receive(LARGE)
    rig.scheduler.advance(TURN_S + 0.1)
    assert honest.answers() == ["large"]


def test_senders_that_are_slow_while_others_wait_are_dropped() -> None:
    rig = Rig(queued_request_bytes_max=len(HALF))
    first, second = stalled(rig, 2)
    third = rig.client()
    third.receive(LARGE)
    assert third.answers() == []
    rig.scheduler.advance(SLOW_S + 0.2)
    assert not first.is_open
    for client in (first, second):
        if not client.is_open:
            client.leave()
    rig.scheduler.advance(TURN_S + 0.2)
    assert third.answers() == ["large"]
    assert rig.memory.waiting == 0


def test_nobody_is_dropped_for_being_slow_while_nobody_waits() -> None:
    rig = Rig(queued_request_bytes_max=2 * len(LARGE))
    (client,) = stalled(rig, 1)
    rig.scheduler.advance(10 * SLOW_S)
    assert client.is_open
    client.receive(REST)
    assert client.answers() == ["large"]


def test_a_turn_is_short() -> None:
    """Slow but steady senders keep neither the turn nor others from being served."""
    rig = Rig(queued_request_bytes_max=len(HALF))
    steady, other = rig.client(), rig.client()
    steady.receive(HALF)
    assert steady.transport.reading
    other.receive(LARGE)
    assert not other.transport.reading
    step = SLOWEST_BYTES_PER_S // 10
    for tenth in range(11):
        steady.receive(REST[tenth * step : (tenth + 1) * step])
        rig.scheduler.advance(0.1)
    assert steady.is_open
    assert other.answers() == ["large"]
    steady.receive(REST[11 * step :])
    assert steady.answers() == ["large"]


def test_a_waiting_client_that_leaves_gives_up_its_place() -> None:
    rig = Rig(queued_request_bytes_max=1)
    first, second = rig.client(), rig.client()
    first.receive(HALF)
    second.receive(LARGE)
    assert rig.memory.waiting == 1
    second.leave()
    first.leave()
    assert (rig.memory.used, rig.memory.waiting) == (0, 0)
    assert not second.transport.reading


class Counting:
    """A sender that counts how often it was let go on."""

    def __init__(self) -> None:
        self.resumed = 0

    def memory_is_back(self) -> None:
        self.resumed += 1

    def is_slow(self) -> bool:
        return False

    def drop_slow(self) -> None:
        raise AssertionError("it is not slow")


def test_very_many_may_wait_at_once() -> None:
    memory = RequestMemory(1, lambda: 0.0)
    senders = [Counting() for _ in range(5000)]
    for sender in senders:
        memory.count(sender, 1)
        sender.resumed += memory.may_go_on(sender)
    assert memory.waiting == 4999
    for place, sender in enumerate(senders):
        assert sender.resumed == 1, place
        memory.count(sender, 0)
    assert (memory.used, memory.waiting) == (0, 0)


def test_time_in_which_this_process_stood_still_makes_no_sender_slow() -> None:
    rig = Rig(queued_request_bytes_max=len(HALF))
    first, second = rig.client(), rig.client()
    first.receive(HALF)
    second.receive(LARGE)
    rig.scheduler.now += 10 * SLOW_S
    rig.memory.look()
    assert first.is_open
    first.receive(REST)
    rig.memory.look()
    assert second.answers() == ["large"], "the turn has passed on"
    assert first.answers() == ["large"]


def test_a_dropped_sender_that_takes_no_answers_gives_its_memory_back_at_once() -> None:
    """The transport waits until what was written has left; nobody else waits for that."""
    rig = Rig(queued_request_bytes_max=len(HALF))
    slow, other, third = rig.client(), rig.client(), rig.client()
    slow.transport.buffered = 1000
    slow.receive(HALF)
    other.receive(HALF)
    third.receive(HALF)
    rig.scheduler.advance(SLOW_S + len(HALF) / SLOWEST_BYTES_PER_S + 2.0)
    assert not slow.is_open
    assert slow.connection not in rig.memory._held
