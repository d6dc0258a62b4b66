"""Plans for moving replicas."""

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.client.admin.types import BrokerDescription, PartitionDescription, TopicDescription
from rookery.client.reassignment import PlanError, Throttled, balance, drain, moves, shares, spread, throttled
from rookery.client.types import TopicPartition


def topic(name: str, *replicas: tuple[int, ...]) -> TopicDescription:
    parts = [PartitionDescription(n, each[0], 0, each, each, ()) for n, each in enumerate(replicas)]
    return TopicDescription(name, UUID(int=1), False, parts)


def brokers(*ids: int, racks: dict[int, str] | None = None) -> list[BrokerDescription]:
    return [BrokerDescription(n, f"b{n}", 9092, (racks or {}).get(n), False) for n in ids]


def test_what_is_spread_already_stays() -> None:
    assert spread([topic("t", (1, 2), (2, 3), (3, 1))], brokers(1, 2, 3)) == {}


def test_a_new_broker_gets_its_share_and_little_moves() -> None:
    before = [topic("t", *[(1, 2)] * 6)]
    plan = spread(before, brokers(1, 2, 3))
    assert moves(plan, {TopicPartition("t", n): (1, 2) for n in range(6)}) == 4


def test_replicas_are_put_into_different_racks() -> None:
    plan = spread([topic("t", (9, 8))], brokers(1, 2, 3, racks={1: "a", 2: "a", 3: "b"}))
    assert 3 in plan[TopicPartition("t", 0)]


def test_a_drained_broker_holds_nothing_and_the_rest_stays() -> None:
    plan = drain([topic("t", (1, 2), (2, 3), (3, 1))], brokers(1, 2, 3), 1)
    assert plan == {TopicPartition("t", 0): [3, 2], TopicPartition("t", 2): [3, 2]}


def test_what_cannot_be_done_is_named() -> None:
    with pytest.raises(PlanError, match="t-0 has 2 replicas, and there are 1 brokers"):
        spread([topic("t", (1, 2))], brokers(1))
    with pytest.raises(PlanError, match="t-0 has a replica on every other broker"):
        drain([topic("t", (1, 2))], brokers(1, 2), 1)


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1, max_size=30),
    st.sets(st.integers(1, 8), min_size=3),
)
def test_every_plan_keeps_the_number_of_replicas_and_is_even(replicas: list[list[int]], ids: set[int]) -> None:
    before = topic("t", *map(tuple, replicas))
    plan = spread([before], brokers(*sorted(ids)))
    after = {n: plan.get(TopicPartition("t", n), old) for n, old in enumerate(replicas)}
    assert all(len(set(after[n])) == len(old) for n, old in enumerate(replicas))
    assert all(set(new) <= ids for new in after.values())
    counts = Counter(broker for new in after.values() for broker in new)
    loads = [counts[broker] for broker in ids]
    assert max(loads) - min(loads) <= 1
    assert moves(plan, {TopicPartition("t", n): old for n, old in enumerate(replicas)}) <= sum(map(len, replicas))


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1, max_size=30),
    st.sets(st.integers(1, 8), min_size=3),
)
def test_a_balance_is_even_in_replicas_and_hardly_uneven_in_leaders(replicas: list[list[int]], ids: set[int]) -> None:
    before = topic("t", *map(tuple, replicas))
    plan = balance([before], brokers(*sorted(ids)))
    after = {TopicPartition("t", n): plan.get(TopicPartition("t", n), old) for n, old in enumerate(replicas)}
    held = shares(after, ids)
    loads = [each.replicas for each in held.values()]
    assert max(loads) - min(loads) <= 1
    for new in after.values():
        least = min(held[broker].leaders for broker in new)
        assert held[new[0]].leaders - least <= 1, "another replica of it leads at least two fewer"


def test_leaders_are_balanced_without_copies() -> None:
    before = [topic("t", (1, 2, 3), (1, 2, 3), (1, 2, 3))]
    plan = balance(before, brokers(1, 2, 3))
    assert moves(plan, {TopicPartition("t", n): (1, 2, 3) for n in range(3)}) == 0
    after = {TopicPartition("t", n): plan.get(TopicPartition("t", n), [1, 2, 3]) for n in range(3)}
    assert {each.leaders for each in shares(after, [1, 2, 3]).values()} == {1}
    assert balance([topic("t", (1, 2), (2, 1))], brokers(1, 2)) == {}


def test_limits_name_what_is_read_and_what_is_new() -> None:
    moving: dict[TopicPartition, tuple[list[int], list[int]]] = {
        TopicPartition("t", 1): ([1], [3]),
        TopicPartition("t", 0): ([1, 2], [3, 4]),
        TopicPartition("u", 0): ([2], []),
    }
    assert throttled(moving) == {"t": Throttled("0:1,0:2,1:1", "0:3,0:4,1:3"), "u": Throttled("0:2", "")}
