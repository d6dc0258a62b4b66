"""The assignors of classic groups: right, even, sticky; bytes and results of Kafka's Java client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.client.consumer.assignors import ASSIGNORS, CooperativeSticky, Member, Range, RoundRobin, Sticky
from rookery.client.consumer.assignors.spec import Assignments
from rookery.client.consumer.assignors.sticky import pack, unpack
from rookery.client.types import TopicPartition

TOPICS = ("a", "b", "c")
counts = st.fixed_dictionaries({topic: st.integers(0, 7) for topic in TOPICS})
subscriptions = st.lists(
    st.sets(st.sampled_from(TOPICS), min_size=1).map(lambda s: tuple(sorted(s))), min_size=1, max_size=5
)


def members(subscribed: list[tuple[str, ...]]) -> list[Member]:
    return [Member(f"m{n}", topics) for n, topics in enumerate(subscribed)]


def after(given: Assignments, members: list[Member], name: str, generation: int) -> list[Member]:
    """The members as they join again with what they got."""
    return [
        Member(
            member.id,
            member.topics,
            tuple(given[member.id]) if name == "cooperative-sticky" else (),
            generation if name == "cooperative-sticky" else -1,
            user_data=pack(given[member.id], generation) if name == "sticky" else b"",
        )
        for member in members
    ]


@pytest.mark.parametrize("name", list(ASSIGNORS))
@given(subscriptions, counts)
def test_every_partition_has_one_reader_that_wants_it(
    name: str, subscribed: list[tuple[str, ...]], partitions: dict[str, int]
) -> None:
    group = members(subscribed)
    given = ASSIGNORS[name]().assign(group, partitions)
    wanted = {topic for topics in subscribed for topic in topics}
    everything = sorted(TopicPartition(topic, n) for topic in wanted for n in range(partitions[topic]))
    assert sorted(tp for places in given.values() for tp in places) == everything
    for member in group:
        assert {tp.topic for tp in given[member.id]} <= set(member.topics)


@pytest.mark.row(98)
@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@given(st.integers(1, 6), st.integers(1, 6), counts)
def test_sticky_is_even_and_moves_no_more_than_it_must(
    name: str, before: int, now: int, partitions: dict[str, int]
) -> None:
    group = members([TOPICS] * before)
    first = ASSIGNORS[name]().assign(group, partitions)
    group = after(first, group, name, 1)[:now] + members([TOPICS] * now)[before:]
    second = ASSIGNORS[name]().assign(group, partitions)
    total = sum(partitions.values())
    low, extra = divmod(total, now)
    if name == "sticky" or now <= before:  # a cooperative one hands over only what was given up
        sizes = sorted(len(places) for places in second.values())
        assert sizes == [low] * (now - extra) + [low + 1] * extra
    stayed = sum(len(set(first[id]) & set(second.get(id, []))) for id in first)
    # who stays keeps all it had, up to a fair share
    shares = sorted((len(first[member.id]) for member in group if member.id in first), reverse=True)
    fair = [low + (n < extra) for n in range(len(shares))]
    assert stayed >= sum(map(min, shares, fair))


@given(subscriptions, subscriptions, counts)
def test_cooperative_gives_nothing_that_somebody_still_has_and_ends(
    before: list[tuple[str, ...]], now: list[tuple[str, ...]], partitions: dict[str, int]
) -> None:
    name = "cooperative-sticky"
    group = members(before)
    given = CooperativeSticky().assign(group, partitions)
    held = {member.id: given[member.id] for member in group}
    for generation in range(2, 6):
        group = [
            Member(
                f"m{n}", topics, tuple(tp for tp in held.get(f"m{n}", []) if tp.topic in topics), generation
            )
            for n, topics in enumerate(now)
        ]
        owned = {tp: member.id for member in group for tp in member.owned}
        given = CooperativeSticky().assign(group, partitions)
        for id, places in given.items():
            assert all(owned.get(tp, id) == id for tp in places)
        if all(set(given[member.id]) >= set(member.owned) for member in group):
            break  # nobody gives up anything: stable
        held = given
    else:
        raise AssertionError("it does not come to rest")
    wanted = {topic for topics in now for topic in topics}
    assert sum(map(len, given.values())) == sum(partitions[topic] for topic in wanted)
    assert name == CooperativeSticky.name


def test_range_as_in_kafka() -> None:
    """Two topics of three partitions, two members: the first one has two of each."""
    given = Range().assign(members([("a", "b")] * 2), {"a": 3, "b": 3})
    assert given == {
        "m0": [
            TopicPartition("a", 0),
            TopicPartition("a", 1),
            TopicPartition("b", 0),
            TopicPartition("b", 1),
        ],
        "m1": [TopicPartition("a", 2), TopicPartition("b", 2)],
    }


def test_static_members_come_first() -> None:
    group = [Member("m0", ("a",)), Member("m9", ("a",), instance_id="i")]
    assert Range().assign(group, {"a": 1}) == {"m0": [], "m9": [TopicPartition("a", 0)]}


def test_round_robin_as_in_kafka() -> None:
    """The example of Kafka's documentation for different subscriptions."""
    given = RoundRobin().assign(members([("a",), ("a", "b"), ("a", "b", "c")]), {"a": 1, "b": 2, "c": 3})
    assert given == {
        "m0": [TopicPartition("a", 0)],
        "m1": [TopicPartition("b", 0)],
        "m2": [
            TopicPartition("b", 1),
            TopicPartition("c", 0),
            TopicPartition("c", 1),
            TopicPartition("c", 2),
        ],
    }


def test_user_data_has_the_bytes_of_the_java_client() -> None:
    sticky = Sticky()
    assert sticky.user_data() is None
    sticky.assigned([TopicPartition("t", 1), TopicPartition("t", 0)], 5)
    raw = bytes.fromhex("0000000100017400000002000000000000000100000005")
    assert sticky.user_data() == raw
    assert unpack(raw) == ((TopicPartition("t", 0), TopicPartition("t", 1)), 5)
    assert unpack(raw[:-4]) == ((TopicPartition("t", 0), TopicPartition("t", 1)), -1)
    assert unpack(b"\x00") == ((), -1)
    cooperative = CooperativeSticky()
    assert cooperative.user_data() == bytes.fromhex("ffffffff")
    cooperative.assigned([], 7)
    assert cooperative.user_data() == bytes.fromhex("00000007")


def test_the_newer_claim_wins_and_equal_claims_lose() -> None:
    tp = TopicPartition("a", 0)
    old, new = Member("m0", ("a",), (tp,), 1), Member("m1", ("a",), (tp,), 2)
    from rookery.client.consumer.assignors.sticky import distribute

    claims = {"m0": ((tp,), 1), "m1": ((tp,), 2)}
    assert distribute([old, new], {"a": 1}, claims)["m1"] == [tp]
    assert distribute([old, new], {"a": 1}, {id: ((tp,), 1) for id in claims})["m0"] == [tp]
