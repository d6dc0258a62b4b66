"""Any order of joins, leaves, silences, restarts, failed writes and failovers: one owner per partition in every
acknowledged generation, commits from owners alone, an end to every rebalance, and nobody evicted who does its part."""

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rookery.broker.coordination.step import Instant
from rookery.broker.groups.group import Group
from rookery.broker.groups.group_state import GroupOptions
from rookery.broker.groups.members import Identity, Member
from rookery.core.errors import ErrorCode, KafkaError
from tests.unit.broker.groups.driver import GROUP, Caller, Driver

PARTITIONS = 6
SESSION_MS = 10_000
REBALANCE_MS = 20_000
STEP_MS = 1_000


class Client:
    """A consumer that does what consumers do: join, sync, heartbeat; on errors, join again."""

    def __init__(self, driver: Driver, instance: str | None, version: int) -> None:
        self.driver = driver
        self.instance = instance
        self.version = version
        self.member_id = ""
        self.generation = -1
        self.owned: set[int] | None = None
        self.waits_for: Caller | None = None
        self.syncing = False
        self.fenced = False
        self.asked = self.known = (0, -1)
        """When it asked last, and when it was last known to be a member, with what the coordinator had forgotten by
        then."""

    def join(self) -> None:
        self.owned = None
        self.syncing = False
        self.asks()
        self.waits_for = self.driver.join(
            self.member_id,
            instance=self.instance,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            version=self.version,
        )

    def advance(self) -> None:
        """Take an answer that has come, and go on from there."""
        caller = self.waits_for
        if caller is None:
            return
        if caller.waiting:
            self.known = self.driver.now.ms, self.asked[1]
            return
        self.waits_for = None
        answer = caller.response
        error = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.fenced = True
        elif error is not ErrorCode.NONE:
            self.rejoin(error, "" if isinstance(answer, ErrorCode) else getattr(answer, "member_id", ""))
        elif self.syncing:
            self.known, self.owned = self.asked, set(answer.assignment)
        else:
            self.sync(answer)

    def rejoin(self, error: ErrorCode, given: str) -> None:
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id, self.known = given, self.asked
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            alive_at, forgotten = self.known
            if self.member_id and forgotten == self.driver.forgot:
                assert self.asked[0] - alive_at >= SESSION_MS, "evicted within its session"
            self.member_id = ""
        self.join()

    def sync(self, joined: object) -> None:
        self.member_id, self.generation = joined.member_id, joined.generation_id  # type: ignore[attr-defined]
        members = sorted(member.member_id for member in joined.members)  # type: ignore[attr-defined]
        assignment = {member: bytes(range(number, PARTITIONS, len(members))) for number, member in enumerate(members)}
        skip = joined.skip_assignment  # type: ignore[attr-defined]
        self.syncing = True
        self.known = self.asked
        self.asks()
        self.waits_for = self.driver.sync(
            self.member_id, self.generation, {} if skip else assignment, instance=self.instance
        )

    def asks(self) -> None:
        self.asked = self.driver.now.ms, self.driver.forgot

    def heartbeat(self) -> None:
        if self.owned is None:
            return
        self.asks()
        error = self.driver.heartbeat(self.member_id, self.generation, self.instance)
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.fenced, self.owned = True, None
        elif error is not ErrorCode.NONE:
            self.rejoin(error, "")
        else:
            self.known = self.asked


@settings(max_examples=60, stateful_step_count=40, deadline=None)
class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(GroupOptions(initial_rebalance_delay_ms=3_000, max_size=5))
        self.clients: list[Client] = []
        self.acknowledged: dict[int, dict[int, str]] = {}
        self.newest = 0

    def pick(self, number: int) -> Client:
        return self.clients[number % len(self.clients)]

    @rule(static=st.booleans(), version=st.sampled_from((3, 5, 9)))
    @precondition(lambda self: len(self.clients) < 5)
    def start(self, static: bool, version: int) -> None:
        taken = {client.instance for client in self.clients}
        free = [f"i{number}" for number in range(5) if f"i{number}" not in taken]
        client = Client(self.driver, free[0] if static else None, max(version, 5) if static else version)
        client.join()
        self.clients.append(client)

    @rule(number=st.integers(0, 9))
    @precondition(lambda self: self.clients)
    def crash(self, number: int) -> None:
        self.clients.remove(self.pick(number))

    @rule(number=st.integers(0, 9))
    @precondition(lambda self: any(client.instance for client in self.clients))
    def restart_static(self, number: int) -> None:
        static = [client for client in self.clients if client.instance]
        old = static[number % len(static)]
        new = Client(self.driver, old.instance, old.version)
        self.clients[self.clients.index(old)] = new
        new.join()

    @rule(number=st.integers(0, 9))
    @precondition(lambda self: self.clients)
    def leave(self, number: int) -> None:
        client = self.pick(number)
        if client.member_id and client.waits_for is None and not client.fenced:
            self.driver.leave((client.member_id, client.instance))
            self.clients.remove(client)

    @rule(number=st.integers(0, 9))
    @precondition(lambda self: self.clients)
    def advance(self, number: int) -> None:
        self.pick(number).advance()

    @rule(number=st.integers(0, 9))
    @precondition(lambda self: self.clients)
    def repeat_join(self, number: int) -> None:
        """The client has lost its patience, or its connection, and asks again."""
        client = self.pick(number)
        if client.waits_for is not None and client.waits_for.waiting and not client.syncing and client.member_id:
            client.join()

    @rule(rounds=st.integers(1, 8))
    def live(self, rounds: int) -> None:
        """Everybody does what consumers do for some seconds."""
        for _ in range(rounds):
            for client in self.clients:
                client.advance()
                client.heartbeat()
            self.one_owner_in_each_acknowledged_generation()
            self.driver.wait(STEP_MS)

    @rule(ms=st.sampled_from((10, 500, 3_000, 9_000, 25_000)))
    def wait(self, ms: int) -> None:
        self.driver.wait(ms)

    @rule(fail=st.booleans())
    def writes(self, fail: bool) -> None:
        self.driver.fail_writes = ErrorCode.COORDINATOR_NOT_AVAILABLE if fail else None

    @rule()
    def failover(self) -> None:
        before = self.driver.state.as_stored()
        for to, response in self.driver.state.abandon(ErrorCode.NOT_COORDINATOR).answers:
            to.complete(response)
        self.driver.reload()
        assert self.driver.state.as_stored() == before

    @invariant()
    def one_owner_in_each_acknowledged_generation(self) -> None:
        for client in self.clients:
            if client.owned is None or client.fenced:
                continue
            owners = self.acknowledged.setdefault(client.generation, {})
            name = client.instance or client.member_id
            for partition in client.owned:
                assert owners.setdefault(partition, name) == name, "two owners"

    @invariant()
    def only_current_members_may_commit(self) -> None:
        group = self.driver.state.groups.get(GROUP)
        for client in self.clients:
            if not isinstance(group, Group) or client.generation < 0 or not client.member_id:
                continue
            try:
                who = Identity(client.member_id, client.instance)
                session = [member.expires_at for member in group.members]
                group.check_commit(who, client.generation, self.driver.now)
            except KafkaError:
                continue
            for member, until in zip(group.members, session, strict=True):
                member.expires_at = until  # looking is not to be a sign of life
            assert client.generation == group.generation
            assert client.member_id in group.members

    @invariant()
    def stored_generations_never_go_back(self) -> None:
        group = self.driver.state.groups.get(GROUP)
        if isinstance(group, Group) and group.stored is not None:
            assert group.stored.generation >= self.newest
            self.newest = group.stored.generation

    def teardown(self) -> None:
        """Left in peace, the group settles within a rebalance and a session."""
        self.driver.fail_writes = None
        self.clients = [client for client in self.clients if not client.fenced]
        for _ in range((REBALANCE_MS + 2 * SESSION_MS) // STEP_MS + 5):
            for client in self.clients:
                client.advance()
                client.heartbeat()
            self.driver.wait(STEP_MS)
        for client in self.clients:
            client.advance()
        group = self.driver.state.groups.get(GROUP)
        if not self.clients:
            assert group is None or group.state.value == "Empty"
            return
        assert isinstance(group, Group)
        assert group.state.value == "Stable"
        there = {client.member_id for client in self.clients}
        assert {member.id for member in group.members} == there, "one was evicted"
        owned = [partition for client in self.clients for partition in client.owned or ()]
        assert sorted(owned) == list(range(PARTITIONS))


TestHistories = pytest.mark.row(90)(pytest.mark.invariant("G1", "G2", "G6")(Histories.TestCase))


def _answer_sync_without_session(group: Group, member: Member, error: ErrorCode, now: Instant, step: Any) -> None:
    """As it was: whoever waited for the leader's assignment has no more of its session than before."""
    expires_at = member.expires_at
    _answer_sync(group, member, error, now, step)
    member.expires_at = expires_at


def _alive_while_it_waits(group: Group, member: Member, now: Instant) -> None:
    """As it was: a new member that repeats its join begins a session, though it still waits for its first answer."""
    member.expires_at = group._by(now.ms + member.session_timeout_ms)


_answer_sync = Group._answer_sync


@pytest.mark.parametrize(
    ("name", "planted"), [("_answer_sync", _answer_sync_without_session), ("_alive", _alive_while_it_waits)]
)
def test_planted_evictions_are_noticed(name: str, planted: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples are the same in every run."""
    monkeypatch.setattr(Group, name, planted)
    many = settings(max_examples=1000, stateful_step_count=40, deadline=None, derandomize=True, phases=[Phase.generate])
    with pytest.raises(AssertionError, match=r"evicted|Stable"):
        run_state_machine_as_test(Histories, settings=many)
