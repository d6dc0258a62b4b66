"""The assignors of the consumer protocol give what Kafka's own classes give.

Kafka takes some orders from hash tables: those are asked for, and given to ours.
"""

import subprocess
from collections.abc import Iterator, Sequence
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rookery.broker.groups.assignors.spec import GroupSpec, MemberSpec
from rookery.broker.groups.consumer.member import TopicIdPartition, TopicIdPartitions, by_topic
from rookery.broker.groups.consumer.target import ASSIGNORS
from tests.interop.kafka import jars

ROUNDS = 3
"""Assignments in a row: the second and third begin with what the one before gave."""


class KafkasAssignors:
    """One JVM that assigns until it is closed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            jars.compiled("Assignors"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def assign(self, name: str, spec: GroupSpec) -> tuple[list[UUID], dict[str, TopicIdPartitions]]:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the JVM was started without pipes")
        topics = ",".join(f"{id.hex}={count}" for id, count in spec.topics.items())
        members = [
            f"{id}|{member.instance_id or '-'}|{','.join(topic.hex for topic in sorted(member.topics))}|"
            + ";".join(f"{topic.hex}:{'.'.join(map(str, numbers))}" for topic, numbers in member.before.items())
            for id, member in spec.members.items()
        ]
        kind = "same" if spec.homogeneous else "different"
        self._process.stdin.write(" ".join([name, kind, topics, *members]) + "\n")
        self._process.stdin.flush()
        order, *answers = self._process.stdout.readline().rstrip("\n").split(" ")
        given = {}
        for answer in answers:
            id, _, text = answer.partition("|")
            given[id] = frozenset(
                TopicIdPartition(UUID(entry[:32]), int(number))
                for entry in text.split(";")
                if entry
                for number in entry[33:].split(".")
            )
        return [UUID(id) for id in order.split(",") if id], given


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkasAssignors]:
    running = KafkasAssignors()
    yield running
    running.close()


@st.composite
def groups(draw: st.DrawFn) -> tuple[bool, dict[UUID, int], list[tuple[dict[str, str | None], list[frozenset[UUID]]]]]:
    """Topics, and the members of each round: who is there, as which instance, subscribed to what."""
    same = draw(st.booleans())
    topics = draw(st.dictionaries(st.uuids(), st.integers(1, 12), min_size=1, max_size=5))
    rounds = []
    for _ in range(ROUNDS):
        members = draw(st.dictionaries(st.sampled_from("abcdefghij"), st.booleans(), min_size=1))
        some = st.sets(st.sampled_from(sorted(topics)), min_size=1)
        wanted = draw(some)
        chosen = [frozenset(wanted if same else draw(some)) for _ in members]
        rounds.append(({id: f"i-{chr(219 - ord(id))}" if static else None for id, static in members.items()}, chosen))
    return same, topics, rounds


def _spec(
    same: bool,
    topics: dict[UUID, int],
    members: dict[str, str | None],
    chosen: Sequence[frozenset[UUID]],
    before: dict[str, TopicIdPartitions],
) -> GroupSpec:
    wanted = frozenset[UUID]().union(*chosen)
    return GroupSpec(
        members={
            id: MemberSpec(members[id], subscribed, by_topic(before.get(id, ())))
            for id, subscribed in sorted(zip(members, chosen, strict=True))
        },
        topics={id: count for id, count in topics.items() if id in wanted},
        homogeneous=same,
    )


@pytest.mark.row(97)
@pytest.mark.parametrize("name", ["uniform", "range"])
def test_equal_to_kafkas(kafka: KafkasAssignors, name: str) -> None:
    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(groups())
    def check(
        case: tuple[bool, dict[UUID, int], list[tuple[dict[str, str | None], list[frozenset[UUID]]]]],
    ) -> None:
        same, topics, rounds = case
        before: dict[str, TopicIdPartitions] = {}
        for members, chosen in rounds:
            spec = _spec(same, topics, members, chosen, before)
            order, theirs = kafka.assign(name, spec)
            if same:
                spec = GroupSpec(spec.members, {id: spec.topics[id] for id in order}, homogeneous=True)
            ours = ASSIGNORS[name](spec)
            assert ours == theirs
            before = ours

    check()
