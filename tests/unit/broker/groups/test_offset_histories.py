"""Any order of commits, topics deleted and created again under the same name, failed writes, failovers and expiry: a
group is told what was committed for the topic that has the name now, or nothing."""

from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rookery.broker.groups.deleting import drop_stale, drop_topics, expire
from rookery.broker.groups.group_state import GroupOptions
from rookery.core.errors import ErrorCode
from tests.unit.broker.groups.driver import GROUP, Driver
from tests.unit.broker.groups.test_offsets import commits, fetched

TOPICS = ("a", "b")
_topics = st.sampled_from(TOPICS)


@settings(max_examples=40, stateful_step_count=30, deadline=None)
class OffsetHistories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(GroupOptions())
        self.driver.topics.update({topic: UUID(int=number) for number, topic in enumerate(TOPICS, 1)})
        self.made = len(TOPICS)
        self.committed: dict[str, int] = {}
        """What was acknowledged for the topics that are there now."""

    @rule(topic=_topics, offset=st.integers(0, 1000))
    def commit(self, topic: str, offset: int) -> None:
        error = commits(self.driver, offset, topic=topic)
        if error is ErrorCode.NONE:
            assert self.driver.topics[topic] is not None
            self.committed[topic] = offset

    @rule(topic=_topics, at_once=st.booleans())
    def delete(self, topic: str, at_once: bool) -> None:
        """Deleted, and perhaps created again before the coordinator hears of either."""
        self.driver.topics[topic] = None
        self.committed.pop(topic, None)
        if at_once:
            self.create(topic)
        for group in list(self.driver.state.groups.values()):
            self.driver.run(drop_topics(group, lambda name: name == topic))

    @rule(topic=_topics)
    def create(self, topic: str) -> None:
        if self.driver.topics[topic] is None:
            self.made += 1
            self.driver.topics[topic] = UUID(int=self.made)

    @rule(fail=st.booleans())
    def writes(self, fail: bool) -> None:
        self.driver.fail_writes = ErrorCode.COORDINATOR_NOT_AVAILABLE if fail else None

    @rule()
    def failover(self) -> None:
        self.driver.reload()
        for group in list(self.driver.state.groups.values()):
            self.driver.run(drop_stale(group, self.driver.topic_id_of))

    @rule()
    def sweep(self) -> None:
        for group in list(self.driver.state.groups.values()):
            self.driver.run(expire(self.driver.state, group, self.driver.now, self.driver.topic_id_of))

    @invariant()
    def nothing_is_inherited_and_nothing_lost(self) -> None:
        for topic in TOPICS:
            assert fetched(self.driver, topic)[0] == self.committed.get(topic, -1)

    def teardown(self) -> None:
        """When writes succeed again, nothing is left of what is gone."""
        self.driver.fail_writes = None
        self.sweep()
        group = self.driver.state.groups.get(GROUP)
        kept = {} if group is None else {partition.topic: value.offset for partition, value in group.offsets}
        assert kept == self.committed
        self.driver.reload()
        self.nothing_is_inherited_and_nothing_lost()


TestOffsetHistories = pytest.mark.row(103)(pytest.mark.invariant("M12", "G3")(OffsetHistories.TestCase))
