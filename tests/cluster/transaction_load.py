"""Producers, processors and consumers of transactions that go on while nodes come and go, and the history of it all.

Each producer is a process of its own, whatever client it is: it commits, aborts, is killed in the middle, is too slow,
or gets an heir that fences it. Processors read what producers have committed and write one result of each record, with
the offsets of their group in the same transaction. Consumers with both isolation levels follow.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.cimpl import KafkaError

from rookery.broker.coordination.internal_topic import partition_for
from tests.cluster.ends import Reachable
from tests.cluster.load import closes
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.networked import NetworkedCluster
from tests.cluster.transaction_history import (
    COMMITTED,
    UNCOMMITTED,
    Assign,
    Begin,
    Complete,
    End,
    Ended,
    Ends,
    Event,
    GroupOffset,
    Offsets,
    Read,
    Report,
    Send,
    check,
    to_json,
)
from tests.interop.transaction_processes import ClientProcess, words_of

INPUT, OUTPUT, GROUP = "orders", "results", "processors"
STATE, STATE_PARTITIONS = "__transaction_state", 3
RESENT_NS = 1_000_000_000
"""A request that takes longer was perhaps sent again, after its time was over or its connection lost."""
TIMEOUT_MS = 5_000
PAUSE_S = 0.05
FINAL_S = 120.0
VERSIONS = {"java": 2, "franz-go": 2}
"""The transaction versions of clients; the others have 1."""
ABORTS, ODD_ENDS = 8, 60
"""One transaction in so many is aborted; one in so many ends its session."""
ODD = ("die", "heir", "slow")


OPTIONS = {
    "transaction__state__log__num__partitions": str(STATE_PARTITIONS),
    "transaction__state__log__replication__factor": "3",
    "transaction__state__log__min__isr": "2",
    "transaction__abort__timed__out__transaction__cleanup__interval__ms": "500",
    "offsets__topic__num__partitions": "3",
    "offsets__topic__replication__factor": "3",
    "broker__session__timeout__ms": "3000",
    "broker__heartbeat__interval__ms": "500",
    "replica__lag__time__max__ms": "2000",
}
"""A cluster that is quick to notice."""


class Refused(Exception):
    """A call of a client failed."""


class Plan(NamedTuple):
    """A topic of the load: its name and its number of partitions."""

    topic: str
    partitions: int

    @property
    def places(self) -> list[tuple[str, int]]:
        return [(self.topic, index) for index in range(self.partitions)]


class History:
    """All events, by whichever thread."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, kind: Callable[..., Event], *fields: object, **more: object) -> None:
        self.events.append(kind(time.monotonic_ns(), *fields, **more))

    def save(self, file: Path) -> None:
        file.write_text("".join(f"{to_json(event)}\n" for event in self.events))


class Session:
    """One life of a producer, from its InitProducerId on."""

    def __init__(self, history: History, bootstrap: str, client: str, name: str, number: int) -> None:
        self.name = f"{name}/{number}"
        self._history = history
        self._client = client
        self._transactions = 0
        self.process = ClientProcess(words_of(client, bootstrap, "produce", name, TIMEOUT_MS))

    def call(self, line: str) -> None:
        answer = self.process.ask(line)
        if "error" in answer:
            raise Refused(f"{self.name}: {line.split()[0]}: {answer['error']} {answer.get('text', '')}")

    def begin(self) -> str:
        self._transactions += 1
        txn = f"{self.name}/{self._transactions}"
        self.call("begin")
        self._history.write(Begin, txn, self.name, VERSIONS.get(self._client, 1))
        return txn

    def send(
        self, txn: str, place: tuple[str, int], value: str, source: tuple[str, int] | None = None
    ) -> None:
        self._history.write(Send, txn, f"{place[0]}-{place[1]}", value, source)
        self.call(f"send {place[0]} {place[1]} {value}")

    def offset(self, txn: str, group: str, place: tuple[str, int], offset: int) -> None:
        self._history.write(Offsets, txn, group, {f"{place[0]}-{place[1]}": offset})
        self.call(f"offset {group} {place[0]} {place[1]} {offset}")

    def end(self, txn: str, wish: str, *, if_refused: str = "unknown") -> None:
        """Ask for the end; raises if that is refused."""
        began = time.monotonic_ns()
        self._history.write(End, txn, wish)
        outcome = if_refused
        try:
            self.call(wish)
            outcome = "ok"
        finally:
            resent = time.monotonic_ns() - began > RESENT_NS
            self._history.write(Ended, txn, outcome, resent)


class Worker:
    """A thread with a transactional id: sessions follow each other as the client gives up or is killed."""

    def __init__(self, load: "TransactionLoad", client: str, name: str, seed: int) -> None:
        self.load = load
        self.name = name
        self.commits = 0
        self.notes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.rng = random.Random(seed)
        self._client = client
        self._sessions = 0
        self._session: Session | None = None
        self.thread = threading.Thread(target=self._run, name=name)

    def new_session(self) -> Session:
        """Another life; what the one before left open is aborted, or its commit is finished."""
        while True:
            self._sessions += 1
            made = Session(self.load.history, self.load.bootstrap, self._client, self.name, self._sessions)
            try:
                made.call("init")
                return made
            except (Refused, AssertionError) as error:
                self.note(error)
                made.process.kill()
                if self.load.overdue:
                    raise

    def _run(self) -> None:
        try:
            while not self.load.stop.is_set():
                self._live()
            self.end_session()
            self.new_session().process.kill()  # leaves nothing open
        except BaseException as error:
            self.load.failures.append(f"{self.name}: {error!r}")
            raise
        finally:
            self.end_session()

    def _live(self) -> None:
        """One session until it fails."""
        session = self._session = self.new_session()
        try:
            self.started(session)
            while not self.load.stop.is_set():
                self.step(session)
                time.sleep(PAUSE_S)
        except (Refused, AssertionError, BrokenPipeError) as error:
            self.note(error)
        finally:
            self.end_session()

    def note(self, error: BaseException) -> None:
        self.errors[" ".join(str(error).split()[1:4])] += 1

    def end_session(self) -> None:
        if self._session is not None:
            self._session.process.kill()
            self._session = None

    def started(self, session: Session) -> None:
        """A new session can begin its first transaction."""

    def step(self, session: Session) -> None:
        """One transaction."""
        raise NotImplementedError

    def finish(self, session: Session, txn: str) -> bool:
        """Mostly a commit, and whether it was one. Raises where the session cannot go on."""
        how = "commit"
        if self.rng.randrange(ODD_ENDS) == 0:
            how = self.rng.choice(ODD)
        elif self.rng.randrange(ABORTS) == 0:
            how = "abort"
        self.notes[how] += 1
        if how == "die":
            raise Refused(f"{self.name}: killed in a transaction")
        if how == "heir":
            self._fenced(session, txn)
        if how == "slow":
            self.load.stop.wait(TIMEOUT_MS / 1000)
        session.end(txn, "abort" if how == "abort" else "commit")
        self.commits += how != "abort"
        return how != "abort"

    def _fenced(self, session: Session, txn: str) -> None:
        """Another session begins; the commit that comes after it must fail."""
        heir = self.new_session()
        try:
            session.end(txn, "commit", if_refused="fail")
            self.load.failures.append(f"{txn} was committed after {heir.name} had begun")
        finally:
            heir.process.kill()


class Writer(Worker):
    """Writes to several partitions of the input in each transaction."""

    def __init__(self, load: "TransactionLoad", client: str, name: str, seed: int) -> None:
        super().__init__(load, client, name, seed)
        self._number = 0

    def step(self, session: Session) -> None:
        txn = session.begin()
        for _ in range(self.rng.randint(1, 5)):
            self._number += 1
            session.send(txn, self.rng.choice(self.load.input.places), f"{self.name}:{self._number}")
        try:
            session.call("flush")
        except Refused as error:
            self.note(error)
            session.end(txn, "abort")
        else:
            self.finish(session, txn)


class Processor(Worker):
    """Writes one result of each record of one partition, with the group's offset."""

    def __init__(self, load: "TransactionLoad", client: str, place: tuple[str, int], seed: int) -> None:
        super().__init__(load, client, f"processor-{place[1]}", seed)
        self._place = place
        self._consumer = load.consumer(COMMITTED)

    def started(self, session: Session) -> None:
        """Read from where the group is."""
        self._consumer.assign([TopicPartition(*self._place, max(self.load.group_offset(self._place), 0))])

    def step(self, session: Session) -> None:
        taken = [each for each in self._consumer.consume(4, timeout=0.2) if each.error() is None]
        if not taken:
            return
        txn = session.begin()
        for message in taken:
            value, offset = (message.value() or b"").decode(), message.offset() or 0
            target = (self.load.output.topic, offset % self.load.output.partitions)
            session.send(txn, target, f"{value}>{txn}", (f"{self._place[0]}-{self._place[1]}", offset))
        session.offset(txn, self.load.group, self._place, (taken[-1].offset() or 0) + 1)
        session.call("flush")
        if not self.finish(session, txn):
            self.started(session)


class TransactionLoad:
    """Writers of these clients, a processor for each partition of the input, consumers, and what they all saw."""

    def __init__(
        self, cluster: Reachable, clients: list[str], processors: list[str], seed: int, suffix: str = ""
    ) -> None:
        """`processors` are the clients of the input's partitions, one each; `suffix` is that of all names."""
        self.bootstrap = cluster.bootstrap
        self.history = History()
        self.failures: list[str] = []
        self.input, self.output = (
            Plan(INPUT + suffix, len(processors)),
            Plan(OUTPUT + suffix, len(processors)),
        )
        self.group = GROUP + suffix
        self.stop = threading.Event()
        self._deadline = float("inf")
        self._member = self.consumer(COMMITTED, **{"group.id": self.group})
        writers = [
            Writer(self, client, f"{client}-{n}{suffix}", seed + n) for n, client in enumerate(clients)
        ]
        working = [
            Processor(self, client, self.input.places[n], seed - n) for n, client in enumerate(processors)
        ]
        self.workers: list[Worker] = [*writers, *working]
        self._watchers = [
            threading.Thread(target=self._follow, args=("committed", COMMITTED), name="committed"),
            threading.Thread(target=self._follow, args=("uncommitted", UNCOMMITTED), name="uncommitted"),
            threading.Thread(target=self._watch_group, name="group"),
        ]

    def __enter__(self) -> "TransactionLoad":
        for thread in (*self._watchers, *(worker.thread for worker in self.workers)):
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadline = time.monotonic() + FINAL_S
        self.stop.set()
        for thread in (*self._watchers, *(worker.thread for worker in self.workers)):
            thread.join()

    @property
    def overdue(self) -> bool:
        return time.monotonic() > self._deadline

    @property
    def places(self) -> list[tuple[str, int]]:
        return [*self.input.places, *self.output.places]

    def go_on(self, more: int) -> None:
        """Wait until every worker has committed again."""
        goals = {worker: worker.commits + more for worker in self.workers}

        def reached() -> bool:
            assert not self.failures, self.failures
            return all(worker.commits >= goal for worker, goal in goals.items())

        print(self.state(), flush=True)
        try:
            wait_for(reached, f"{more} more commits of each", 180)
        except AssertionError:
            print(f"too few commits: {self.state()}", flush=True)
            raise

    def state(self) -> str:
        return "; ".join(f"{each.name}: {each.commits} commits, {dict(each.errors)}" for each in self.workers)

    # --- clients --------------------------------------------------------------------------------------------

    def consumer(self, isolation: str, **more: object) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "not-used",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
                "fetch.wait.max.ms": 50,
                "socket.timeout.ms": 4000,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
                **more,
            }
        )

    def group_offset(self, place: tuple[str, int]) -> int:
        """The group's offset, when no open transaction is to change it. A new client asks each time: one that is
        connected to nobody but a node that is cut off does not come to know the coordinator in charge."""

        def ask() -> dict[tuple[str, int], int] | None:
            consumer = self.consumer(COMMITTED, **{"group.id": self.group})
            try:
                return self._group_offsets([place], consumer)
            finally:
                closes(consumer)

        return int(wait_for(ask, f"a stable offset of {place}", FINAL_S)[place])

    def _group_offsets(
        self, places: list[tuple[str, int]], consumer: Consumer
    ) -> dict[tuple[str, int], int] | None:
        """A consumer with read_committed asks for stable offsets."""
        try:
            found = consumer.committed([TopicPartition(*place) for place in places], timeout=10)
        except KafkaException:
            return None
        return (
            None
            if any(each.error for each in found)
            else {(each.topic, each.partition): each.offset for each in found}
        )

    # --- watching -------------------------------------------------------------------------------------------

    def _follow(self, name: str, isolation: str) -> None:
        consumer = self.consumer(isolation)
        self.history.write(Assign, name)
        consumer.assign([TopicPartition(*place, 0) for place in self.places])
        while not self.stop.is_set():
            self._read(consumer, name, isolation)
        closes(consumer)

    def _read(self, consumer: Consumer, name: str, isolation: str) -> list[tuple[str, int]]:
        """Write down what comes; partitions whose end was reached."""
        ended = []
        for message in consumer.consume(500, timeout=0.2):
            topic, partition, error = message.topic(), message.partition(), message.error()
            if error is None:
                value = (message.value() or b"").decode()
                self.history.write(Read, name, isolation, f"{topic}-{partition}", message.offset(), value)
            elif error.code() == KafkaError._PARTITION_EOF and topic is not None and partition is not None:
                ended.append((topic, partition))
        return ended

    def _watch_group(self) -> None:
        while not self.stop.wait(0.25):
            self._note_group()

    def _note_group(self, *, final: bool = False) -> bool:
        found = self._group_offsets(self.input.places, self._member)
        for (topic, partition), offset in (found or {}).items():
            if offset >= 0:
                self.history.write(GroupOffset, self.group, f"{topic}-{partition}", offset, final)
        return found is not None

    # --- the end --------------------------------------------------------------------------------------------

    def judged(self, file: Path | None = None) -> Report:
        """Read everything once more with both isolation levels, and judge it. Faults must be over."""
        assert not self.failures, self.failures
        stable = self._wait_stable()
        for isolation in (COMMITTED, UNCOMMITTED):
            whole = partial(self._read_to_the_end, isolation, stable)
            wait_for(whole, f"the ends of all partitions, {isolation}", 300)
        wait_for(lambda: self._note_group(final=True), "the group's last offsets", FINAL_S)
        if file is not None:
            self.history.save(file)
        return check(self.history.events)

    def _wait_stable(self) -> dict[tuple[str, int], int]:
        """Where partitions end when no transaction is open; one that is for too long is written down."""
        levels = {isolation: self.consumer(isolation) for isolation in (COMMITTED, UNCOMMITTED)}
        ends: dict[str, dict[tuple[str, int], int]] = {}

        def stable() -> bool:
            ends.update({isolation: self._ends(consumer) for isolation, consumer in levels.items()})
            return bool(ends[COMMITTED]) and ends[COMMITTED] == ends[UNCOMMITTED]

        try:
            wait_for(stable, "no transaction to be open", FINAL_S)
        except AssertionError:
            print(f"still open: {ends}")
        for consumer in levels.values():
            closes(consumer)
        for (topic, partition), end in ends[UNCOMMITTED].items():
            self.history.write(Ends, f"{topic}-{partition}", end, ends[COMMITTED].get((topic, partition), -1))
        return ends[UNCOMMITTED]

    def _ends(self, consumer: Consumer) -> dict[tuple[str, int], int]:
        """The ends as the consumer's isolation level has them: high watermarks or last stable offsets."""
        try:
            return {
                place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=10)[1]
                for place in self.places
            }
        except KafkaException:
            return {}

    def _read_to_the_end(self, isolation: str, ends: dict[tuple[str, int], int]) -> bool:
        """Whether a new consumer has come to the end of every partition."""
        name = f"last {isolation} {time.monotonic_ns()}"
        consumer = self.consumer(isolation, **{"enable.partition.eof": True})
        self.history.write(Assign, name)
        consumer.assign([TopicPartition(*place, 0) for place in self.places])
        left = {place for place, end in ends.items() if end > 0}
        deadline = time.monotonic() + 60
        while left and time.monotonic() < deadline:
            left -= set(self._read(consumer, name, isolation))
        closes(consumer)
        if not left:
            for topic, partition in self.places:
                self.history.write(Complete, name, isolation, f"{topic}-{partition}")
        return not left


def create_topics(cluster: LocalCluster, partitions: int, suffix: str = "") -> None:
    for topic in (INPUT, OUTPUT):
        cluster.create_topic(topic + suffix, partitions, 3, {"min.insync.replicas": "2"})


def leader_of_state(cluster: LocalCluster, name: str) -> int:
    """The coordinator of a transactional id."""
    return cluster.leader(STATE, partition_for(name, STATE_PARTITIONS))


def heal(cluster: NetworkedCluster, load: TransactionLoad) -> None:
    """End all faults and wait until every replica is in sync."""
    cluster.heal()
    cluster.resume_all()
    cluster.up()
    for topic, partitions in (load.input, load.output, (STATE, STATE_PARTITIONS)):
        cluster.wait_in_sync(topic, partitions)
