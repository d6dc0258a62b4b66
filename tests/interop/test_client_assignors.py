"""Our client's assignors beside those of Kafka's Java client: a group may have either as its leader.

`range` and `roundrobin` give exactly the same. `sticky` and `cooperative-sticky` keep some partitions of several that
they could keep; in Java the order of a hash table decides which. Where all subscribe to the same topics, as many stay
and the shares are the same; otherwise both move single partitions while that helps, and may end in different places.
Each side reads the user data that the other wrote.
"""

import subprocess
from collections.abc import Collection, Iterator, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rookery.client.consumer.assignors import ASSIGNORS, Member
from rookery.client.consumer.assignors.spec import Assignments
from rookery.client.consumer.assignors.sticky import unpack
from rookery.core.types import TopicPartition
from tests.interop.kafka import jars

TOPICS = ("a", "b", "c", "d")
ROUNDS = 3
"""Assignments in a row: members of the later ones bring what they had."""
UserData = dict[str, bytes]
Round = dict[str, tuple[bool, tuple[str, ...]]]
"""By member: whether it is static, and its topics."""


class JavasAssignors:
    """One JVM that assigns until it is closed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            jars.compiled("ClientAssignors"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def assign(
        self, name: str, members: Collection[Member], partitions: Mapping[str, int], generation: int
    ) -> tuple[Assignments, UserData]:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the JVM was started without pipes")
        topics = ",".join(f"{topic}={count}" for topic, count in partitions.items())
        self._process.stdin.write(" ".join([name, str(generation), topics, *map(_word, members)]) + "\n")
        self._process.stdin.flush()
        found: Assignments = {}
        data: UserData = {}
        for word in self._process.stdout.readline().split():
            id, places, sent = word.split("|")
            pairs = (place.rpartition(":") for place in places.split(",") if place)
            found[id] = [TopicPartition(topic, int(number)) for topic, _, number in pairs]
            data[id] = b"" if sent == "-" else bytes.fromhex(sent)
        return found, data


def _word(member: Member) -> str:
    owned = ",".join(f"{tp.topic}:{tp.partition}" for tp in member.owned)
    return "|".join(
        (
            member.id,
            member.instance_id or "-",
            ",".join(member.topics),
            owned,
            str(member.generation),
            member.user_data.hex() or "-",
        )
    )


@pytest.fixture(scope="module")
def java() -> Iterator[JavasAssignors]:
    running = JavasAssignors()
    yield running
    running.close()


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, int], list[Round]]:
    """The partitions of topics, and the members of each round."""
    partitions = draw(st.fixed_dictionaries({topic: st.integers(0, 7) for topic in TOPICS}))
    some = st.sets(st.sampled_from(TOPICS), min_size=1).map(lambda found: tuple(sorted(found)))
    same = draw(st.booleans())
    wanted = draw(some)
    topics: dict[str, tuple[str, ...]] = {}
    rounds: list[Round] = []
    for _ in range(ROUNDS):
        members = draw(st.dictionaries(st.sampled_from("pqrstuvwxyz"), st.booleans(), min_size=1, max_size=7))
        for id in members:
            if id not in topics:
                topics[id] = wanted if same else draw(some)
        rounds.append({id: (static, topics[id]) for id, static in members.items()})
    return partitions, rounds


def joined(name: str, now: Round, given: Assignments, data: UserData, generation: int) -> list[Member]:
    """The members as they join, with what they had."""
    cooperative = ASSIGNORS[name].cooperative
    return [
        Member(
            id,
            topics,
            tuple(given.get(id, ())) if cooperative else (),
            generation if cooperative and id in given else -1,
            instance_id=f"i-{chr(219 - ord(id))}" if static else None,
            user_data=data.get(id, b""),
        )
        for id, (static, topics) in now.items()
    ]


def our_data(name: str, given: Assignments, generation: int) -> UserData:
    """What our members send next."""
    found = {}
    for id, places in given.items():
        assignor = ASSIGNORS[name]()
        assignor.assigned(places, generation)
        found[id] = assignor.user_data() or b""
    return found


def check_data(name: str, given: Assignments, theirs: UserData, generation: int) -> None:
    for id, ours in our_data(name, given, generation).items():
        if name == "sticky":  # Java orders topics as a hash table does
            (had, since), (had_ours, since_ours) = unpack(theirs[id]), unpack(ours)
            assert (sorted(had), since) == (sorted(had_ours), since_ours)
            assert len(theirs[id]) == len(ours)
            if len({tp.topic for tp in given[id]}) <= 1:
                assert sorted(theirs[id]) == sorted(ours)
        else:
            assert theirs[id] == ours


def stayed(before: Assignments, after: Assignments) -> int:
    return sum(len(set(places) & set(after.get(id, ()))) for id, places in before.items())


def shares(given: Assignments) -> list[int]:
    return sorted(map(len, given.values()))


def no_single_move_helps(given: Assignments, members: Collection[Member]) -> bool:
    return all(
        len(places) <= len(given[other.id]) + 1
        for places in given.values()
        for tp in places
        for other in members
        if tp.topic in other.topics
    )


@pytest.mark.row(97, 98)
@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_equal_to_javas(java: JavasAssignors, name: str) -> None:
    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(histories())
    def check(case: tuple[dict[str, int], list[Round]]) -> None:
        partitions, rounds = case
        before: Assignments = {}
        data: UserData = {}
        for generation, now in enumerate(rounds, 1):
            members = joined(name, now, before, data, generation - 1)
            theirs, their_data = java.assign(name, members, partitions, generation)
            ours = ASSIGNORS[name]().assign(members, partitions)
            if name in ("range", "roundrobin"):
                assert ours == theirs
            elif len({each.topics for each in members}) == 1:
                assert stayed(before, ours) == stayed(before, theirs)
                if name == "sticky":  # the other keeps back what somebody has to give up first
                    assert shares(ours) == shares(theirs)
            elif name == "sticky":
                assert no_single_move_helps(ours, members)
            check_data(name, theirs, their_data, generation)
            # the next round reads what the one or the other side wrote
            before, data = (theirs, their_data) if generation % 2 else (ours, our_data(name, ours, generation))

    check()
