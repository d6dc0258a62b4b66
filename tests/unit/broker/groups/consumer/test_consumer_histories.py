"""Histories of groups of the consumer protocol: any order of heartbeats, lost answers, silence, failures and failovers.

A member has one request in flight, as its connection has it; a request may be delivered twice in a row, its answer may
be lost, and the member may be silent for as long as it likes.
"""

from functools import partial

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.strategies import booleans, data, integers, sampled_from

from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.broker.groups.consumer.member import TopicIdPartition
from rookery.broker.groups.group_state import ConsumerOptions, GroupOptions
from rookery.broker.groups.members import Identity
from rookery.core.errors import ErrorCode, KafkaError
from tests.unit.broker.groups.consumer.driver import Consumer, ConsumerDriver
from tests.unit.broker.groups.driver import GROUP

SESSION_MS = 10_000
REBALANCE_MS = 6_000
TOPICS = ("t", "u", "v")
SUBSCRIPTIONS = (("t",), ("t",), ("t", "u"), ("u",), ("t", "u", "v"))


class Actor(Consumer):
    """A consumer with a clock of its own: it gives up what it has when it hears nothing for a whole session."""

    heard_at = 0
    crashed = False


class ConsumerHistories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.actors: list[Actor] = []
        self.made = 0
        self.epochs: dict[str, int] = {}
        self.newest = (0, 0)

    @initialize(pause=sampled_from((0, 1_000)), static=booleans(), regex=booleans(), assignor=booleans())
    def begin(self, pause: int, static: bool, regex: bool, assignor: bool) -> None:
        options = ConsumerOptions(
            session_timeout_ms=SESSION_MS,
            assignment_interval_ms=pause,
            assignors=("range", "uniform") if assignor else ("uniform", "range"),
        )
        self.driver = ConsumerDriver(options=GroupOptions(consumer=options))
        self.static, self.regex = static, regex
        for name in TOPICS[:2]:
            self.driver.cluster.make(name, 3)

    # --- what happens -----------------------------------------------------------------------------------------

    @rule(number=integers(0, 20), lose=booleans(), twice=booleans())
    def beat(self, number: int, lose: bool, twice: bool) -> None:
        if self.actors:
            self._beat(self.actors[number % len(self.actors)], lose=lose, twice=twice)

    def _beat(self, actor: Actor, *, lose: bool = False, twice: bool = False) -> None:
        actor.regex = "[tu]" if self.regex and not actor.topics else None
        if twice:
            actor.beat(lose_answer=True)
        answer = actor.beat(lose_answer=lose)
        if answer is ErrorCode.UNRELEASED_INSTANCE_ID:
            return
        if answer is ErrorCode.FENCED_INSTANCE_ID:
            actor.lost()
            self.actors.remove(actor)
        elif not lose:
            actor.heard_at = self.driver.now.ms

    @precondition(lambda self: len(self.actors) < 5)
    @rule(topics=sampled_from(SUBSCRIPTIONS))
    def come(self, topics: tuple[str, ...]) -> None:
        self.made += 1
        instance = f"i{self.made % 2}" if self.static else None
        if instance is not None and any(actor.instance == instance for actor in self.actors):
            instance = None
        names = () if self.regex and self.made % 2 else topics
        actor = Actor(self.driver, f"m{self.made}", names, instance=instance, rebalance_ms=REBALANCE_MS)
        actor.heard_at = self.driver.now.ms
        self.actors.append(actor)
        self._beat(actor)

    @rule(number=integers(0, 20), for_a_while=booleans())
    def leave(self, number: int, for_a_while: bool) -> None:
        if self.actors:
            actor = self.actors.pop(number % len(self.actors))
            actor.leave(for_a_while=for_a_while and actor.instance is not None)

    @rule(number=integers(0, 20))
    def crash(self, number: int) -> None:
        """It is gone without a word: what it has counts no more, as nobody reads it."""
        if self.actors:
            self.actors.pop(number % len(self.actors))

    @rule(number=integers(0, 20), topics=sampled_from(SUBSCRIPTIONS))
    def subscribe(self, number: int, topics: tuple[str, ...]) -> None:
        if self.actors and not self.regex:
            actor = self.actors[number % len(self.actors)]
            actor.topics, actor.told = topics, None
            self._beat(actor)

    @rule(ms=sampled_from((500, 2_000, 7_000)))
    def wait(self, ms: int) -> None:
        self.driver.wait(ms)
        for actor in self.actors:
            if self.driver.now.ms - actor.heard_at >= SESSION_MS and actor.owned:
                actor.lost()  # clients give up what they have when their session must be over

    @rule(name=sampled_from(TOPICS), partitions=integers(1, 6), at_once=booleans())
    def change_topics(self, name: str, partitions: int, at_once: bool) -> None:
        known = self.driver.cluster.topic(name)
        if known is None:
            self.driver.cluster.make(name, partitions)
        elif partitions > known.partitions:
            self.driver.cluster.grow(name, partitions)
        elif partitions == 1:
            del self.driver.cluster.known[name]
        self.driver.topics_changed()

    @rule()
    def fail_over(self) -> None:
        self.driver.reload()
        for actor in self.actors:
            actor.heard_at = self.driver.now.ms

    @rule(data=data())
    def fail_to_write(self, data: object) -> None:
        self.driver.fail_writes = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for actor in list(self.actors):
            self._beat(actor)
        self.driver.fail_writes = None

    # --- what must be true ------------------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.driver.state.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    @invariant()
    def partitions_have_one_owner(self) -> None:
        owners: dict[TopicIdPartition, str] = {}
        for actor in self.actors:
            for place in actor.owned:
                assert owners.setdefault(place, actor.id) == actor.id, "two owners"
        group = self.group
        for member in group.members.values() if group is not None else ():
            held = {*member.current.assigned, *member.current.pending}
            assert all(group is not None and group.stored.owners[place] == member.id for place in held)

    @invariant()
    def what_a_client_has_is_known(self) -> None:
        """No client has what the group thinks is free."""
        group = self.group
        for actor in self.actors:
            member = None if group is None else group.members.get(actor.id)
            if member is not None and actor.epoch > 0:
                assert actor.owned <= {*member.current.assigned, *member.current.pending}

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.group
        if group is None:
            self.epochs, self.newest = {}, (0, 0)
            return
        stored = group.stored
        assert self.newest <= (stored.epoch, stored.assignment_epoch)
        self.newest = stored.epoch, stored.assignment_epoch
        assert stored.assignment_epoch <= stored.epoch
        for member in stored.members.values():
            epoch = member.current.epoch
            assert epoch <= stored.assignment_epoch
            if epoch >= 0:
                assert epoch >= self.epochs.get(member.id, 0)
                self.epochs[member.id] = epoch

    @invariant()
    def targets_cover_each_partition_once(self) -> None:
        group = self.group
        if group is None or group.stored.epoch != group.stored.assignment_epoch or not group.members:
            return
        places = [place for places in group.stored.targets.values() for place in places]
        assert len(places) == len(set(places))

    @invariant()
    def a_commit_needs_the_partition(self) -> None:
        """Nobody commits what another has by now."""
        group = self.group
        if group is None:
            return
        for actor in self.actors:
            others = {place for one in self.actors if one is not actor for place in one.owned}
            for place in others:
                try:
                    group.check_commit(Identity(actor.id), actor.epoch, self.driver.now, places=partial(list, [place]))
                except KafkaError:
                    continue
                member = group.members[actor.id]
                assert member.current.epoch == actor.epoch, "an old epoch commits what another has"

    def teardown(self) -> None:
        """Left in peace, the group is stable after a bounded number of rounds."""
        if not hasattr(self, "driver"):
            return
        self.driver.topics_changed()
        for _ in range(SESSION_MS // 1_000 + 2 * len(self.actors) + 8):
            self.driver.wait(1_000)
            for actor in list(self.actors):
                self._beat(actor)
        group = self.group
        if group is None:
            assert not self.actors
            return
        assert set(group.members) == {actor.id for actor in self.actors}
        if self.actors:
            assert group.state.value == "Stable"
            subscribed = {name for actor in self.actors for name in (actor.topics or ("t", "u"))}
            wanted = {
                TopicIdPartition(info.id, index)
                for name in subscribed
                if (info := self.driver.cluster.topic(name)) is not None
                for index in range(info.partitions)
            }
            assert {place for actor in self.actors for place in actor.owned} == wanted


ConsumerHistories.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestConsumerHistories = pytest.mark.row(90)(
    pytest.mark.invariant("G7", "G8", "G9", "G10", "G12", "G15", "G16")(ConsumerHistories.TestCase)
)


