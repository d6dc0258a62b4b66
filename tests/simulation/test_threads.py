"""Threads in virtual time: interleaved by the seed, killed without cleaning up, waited for at a shutdown."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from rookery.core.disk import replace_file
from rookery.core.testing.disk import MemoryDisk
from tests.simulation.loop import Process, SimLoop

FILE = "/data/f"


class Machine:
    """A process on a loop, with a disk whose operations give way to others."""

    def __init__(self, seed: int, pauses: float = 0.7) -> None:
        draw = Random(f"{seed} delays")
        self.loop = SimLoop(  # type: ignore[abstract]
            lambda: draw.expovariate(1.0) * 0.01, pauses, Random(seed)
        )
        self.threads = self.loop.threads
        self.disk = MemoryDisk(Random(seed))
        self.disk.mkdir("/data")
        self.disk.point = self.threads.point
        self.disk.threaded = True
        self.process = Process("host")

    def in_thread(self, work: Callable[..., object], *args: object, executor: object = None) -> None:
        self.process.context.run(self.loop.run_in_executor, executor, work, *args)

    def task(self, work: Coroutine[Any, Any, None]) -> None:
        self.process.context.run(self.loop.create_task, work)

    def append(self, marks: bytes) -> None:
        file = self.disk.open(FILE, create=True)
        for mark in marks:
            file.write(bytes([mark]))
        file.close()

    def run(self, seconds: float = 60.0) -> None:
        self.loop.run_until(self.loop.time() + seconds)


def _interleaving(seed: int, pauses: float = 0.7) -> bytes:
    machine = Machine(seed, pauses)
    for marks in (b"aaaa", b"bbbb"):
        machine.in_thread(machine.append, marks)
    machine.run()
    return machine.disk.read(FILE)


def test_a_seed_decides_how_threads_interleave() -> None:
    found = [_interleaving(seed) for seed in range(20)]
    assert found == [_interleaving(seed) for seed in range(20)]
    assert all(sorted(content) == sorted(b"aaaabbbb") for content in found)
    assert len(set(found)) > 5


def test_without_pauses_work_happens_at_one_moment() -> None:
    assert {_interleaving(seed, pauses=0.0) for seed in range(20)} == {b"aaaabbbb", b"bbbbaaaa"}


def test_one_thread_does_one_thing_after_the_other() -> None:
    for seed in range(10):
        machine = Machine(seed)
        pool = machine.threads.executor(1)
        for marks in (b"aaaa", b"bbbb", b"cccc"):
            machine.in_thread(machine.append, marks, executor=pool)
        machine.run()
        assert machine.disk.read(FILE) == b"aaaabbbbcccc"


def test_a_killed_process_cleans_nothing_up() -> None:
    left = set()
    for seed in range(20):
        machine = Machine(seed)

        def write_and_remove(machine: Machine = machine) -> None:
            try:
                machine.append(b"aaaa")
            finally:
                machine.disk.remove(FILE)

        machine.in_thread(write_and_remove)
        machine.loop.run_until(0.03)
        machine.process.alive = False
        machine.disk.restart()
        before = machine.disk.contents(FILE) if FILE in machine.disk.paths() else None
        machine.run()
        machine.loop.abandon()
        after = machine.disk.contents(FILE) if FILE in machine.disk.paths() else None
        assert after == before
        left.add(after)
    assert len(left) > 3


def test_a_stopped_process_goes_on_where_it_stood() -> None:
    machine = Machine(3, pauses=1.0)
    machine.in_thread(machine.append, b"aaaa")
    machine.loop.run_until(0.02)
    machine.process.paused = True
    machine.run()
    before = machine.threads.pauses
    assert FILE not in machine.disk.paths() or machine.disk.read(FILE) != b"aaaa"
    machine.loop.resume(machine.process)
    machine.run()
    assert machine.disk.read(FILE) == b"aaaa"
    assert machine.threads.pauses > before


def test_whoever_shuts_an_executor_down_waits_for_its_threads() -> None:
    machine = Machine(5, pauses=1.0)
    pool = machine.threads.executor(1)
    for marks in (b"aaaa", b"bbbb"):
        machine.in_thread(machine.append, marks, executor=pool)
    machine.loop.run_until(0.02)
    pool.shutdown(wait=True)
    assert machine.disk.read(FILE) == b"aaaabbbb"
    machine.run()
    assert machine.disk.read(FILE) == b"aaaabbbb"


def test_an_event_is_waited_for_in_virtual_time() -> None:
    machine = Machine(1)
    event = machine.threads.event()
    heard: list[tuple[bool, float]] = []
    for timeout in (1.0, 100.0):
        machine.in_thread(lambda seconds: heard.append((event.wait(seconds), machine.loop.time())), timeout)
    machine.loop.call_at(5.0, event.set)
    machine.run(200.0)
    (first, early), (second, late) = heard
    assert (first, second) == (False, True)
    assert 1.0 <= early < 2.0
    assert 5.0 <= late < 6.0


def test_two_writers_of_one_file_get_in_each_others_way() -> None:
    """Two savers of one checkpoint share its temporary file, here as on a real disk."""
    failed = 0
    for seed in range(40):
        machine = Machine(seed)
        outcomes: list[OSError | None] = []

        async def save(content: bytes, machine: Machine = machine, outcomes: list[OSError | None] = outcomes) -> None:
            try:
                await machine.disk.replace("/data/checkpoint", content)
            except OSError as error:
                outcomes.append(error)
            else:
                outcomes.append(None)

        for content in (b"one", b"two"):
            machine.task(save(content))
        machine.run()
        assert len(outcomes) == 2
        failed += any(isinstance(outcome, FileNotFoundError) for outcome in outcomes)
    assert 0 < failed < 40


@pytest.mark.parametrize("pauses", [0.0, 0.5])
def test_on_the_loop_itself_operations_happen_at_once(pauses: float) -> None:
    machine = Machine(1, pauses)
    replace_file(machine.disk, FILE, b"x")
    assert machine.disk.read(FILE) == b"x"
    assert machine.threads.pauses == 0
