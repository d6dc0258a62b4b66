"""What both assignors promise, whatever the group. That they are equal to Kafka's is shown with Kafka's own classes."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.broker.groups.assignors.spec import GroupSpec, MemberSpec
from rookery.broker.groups.consumer.member import TopicIdPartitions, by_topic
from rookery.broker.groups.consumer.target import ASSIGNORS

TOPICS = [UUID(int=number) for number in range(1, 5)]
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)
members = st.sets(st.sampled_from("abcdefgh"), min_size=1)


def spec_of(
    topics: dict[UUID, int], subscribed: dict[str, frozenset[UUID]], before: dict[str, TopicIdPartitions], *, same: bool
) -> GroupSpec:
    wanted = frozenset[UUID]().union(*subscribed.values())
    return GroupSpec(
        members={
            id: MemberSpec(None, subscribed[id], by_topic(before.get(id, ()))) for id in sorted(subscribed)
        },
        topics={id: topics[id] for id in sorted(wanted & topics.keys())},
        homogeneous=same,
    )


@pytest.mark.invariant("G9", "G17")
@given(counts, st.data(), st.sampled_from(sorted(ASSIGNORS)))
def test_each_partition_of_a_subscribed_topic_has_one_subscriber(
    topics: dict[UUID, int], data: st.DataObject, name: str
) -> None:
    before: dict[str, TopicIdPartitions] = {}
    for _ in range(3):
        some = st.frozensets(st.sampled_from(sorted(topics)), min_size=1)
        subscribed = {id: data.draw(some) for id in sorted(data.draw(members))}
        spec = spec_of(topics, subscribed, before, same=False)
        assigned = ASSIGNORS[name](spec)
        assert assigned == ASSIGNORS[name](spec)
        places = [place for places in assigned.values() for place in places]
        assert len(places) == len(set(places)) == sum(spec.topics.values())
        assert all(place.topic_id in subscribed[id] for id, places in assigned.items() for place in places)
        before = assigned


@pytest.mark.row(92, 98)
@pytest.mark.invariant("G9")
@given(counts, st.lists(members, min_size=2, max_size=4))
def test_uniform_is_balanced_and_moves_as_little_as_it_can(topics: dict[UUID, int], rounds: list[set[str]]) -> None:
    before: dict[str, TopicIdPartitions] = {}
    for names in rounds:
        spec = spec_of(topics, dict.fromkeys(names, frozenset(topics)), before, same=True)
        assigned = ASSIGNORS["uniform"](spec)
        sizes = [len(places) for places in assigned.values()]
        assert max(sizes) - min(sizes) <= 1
        share, extra = divmod(sum(topics.values()), len(names))
        had = sorted((len(before.get(id, ())) for id in names), reverse=True)
        kept_at_most = sum(min(size, share + (number < extra)) for number, size in enumerate(had))
        kept = sum(len(before.get(id, frozenset()) & assigned[id]) for id in names)
        assert kept == kept_at_most
        before = assigned


def test_range_cuts_topics_alike() -> None:
    first, second = TOPICS[:2]
    spec = spec_of({first: 5, second: 5}, dict.fromkeys("ab", frozenset((first, second))), {}, same=True)
    assigned = ASSIGNORS["range"](spec)
    assert by_topic(assigned["a"]) == {first: [0, 1, 2], second: [0, 1, 2]}
    assert by_topic(assigned["b"]) == {first: [3, 4], second: [3, 4]}
