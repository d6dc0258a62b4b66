"""Topics are created, grown and deleted; what is wrong is refused topic by topic."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from uuid import UUID

import pytest

from rookery.controller.state.configs import RULES
from rookery.controller.state.defaults import Defaults
from rookery.controller.state.topics import Growth, create_partitions, create_topics, delete_topics
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import (
    Assignment,
    ConfigEntry,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewTopic,
    TopicAnswer,
    TopicGrowth,
    TopicReference,
)
from rookery.core.metadata.topic_names import INTERNAL
from tests.unit.controller.state.clusters import after, cluster

DEFAULTS = Defaults(partitions=2, replication_factor=3, records_per_request_max=50)


@pytest.fixture
def growth() -> Growth:
    ids: Iterator[int] = count(5000)
    return Growth(RULES, DEFAULTS, position=0, new_id=lambda: UUID(int=next(ids)))


def create(
    image: Image, growth: Growth, *topics: NewTopic, validate_only: bool = False
) -> tuple[list[TopicAnswer], Image]:
    decision = create_topics(image, CreateTopicsRequest(topics, validate_only), growth)
    later = after(image, decision.records)
    return list(decision.reply(later).topics), later


def grow(image: Image, growth: Growth, *topics: TopicGrowth) -> tuple[list[TopicAnswer], Image]:
    decision = create_partitions(image, CreatePartitionsRequest(topics), growth)
    later = after(image, decision.records)
    return list(decision.reply(later).topics), later


def test_a_topic_is_known_by_its_id_to_the_request_that_made_it(growth: Growth) -> None:
    mine, other = UUID(int=71), UUID(int=72)
    first, image = create(cluster(), growth, NewTopic("t", 4, 2, topic_id=mine))
    assert (image.topic_ids["t"], first[0].topic_id) == (mine, mine)
    again, later = create(image, growth, NewTopic("t", 4, 2, topic_id=mine), NewTopic("u", topic_id=other))
    assert again[0] == first[0]
    assert set(later.topic_ids) == {"t", "u"}
    refused, last = create(later, growth, NewTopic("t", topic_id=UUID(int=73)), NewTopic("v", topic_id=mine))
    assert names(refused) == ["TOPIC_ALREADY_EXISTS", "INVALID_REQUEST"]
    assert last.topics == later.topics


def names(answers: list[TopicAnswer]) -> list[str]:
    return [ErrorCode(answer.error).name for answer in answers]


@pytest.mark.row(53)
def test_a_topic_gets_defaults_an_id_leaders_and_its_configuration(growth: Growth) -> None:
    (answer,), image = create(cluster(), growth, NewTopic("orders", configs=(ConfigEntry("retention.ms", "1000"),)))
    topic = image.topics[answer.topic_id]
    assert (answer.error, answer.partitions, answer.replication_factor) == (0, 2, 3)
    assert topic.name == "orders"
    assert [(p.leader, p.isr) for _, p in topic.in_order()] == [(1, (1, 2, 3)), (2, (2, 3, 1))]
    assert dict(image.topic_config("orders")) == {"retention.ms": "1000"}


@pytest.mark.row(54)
def test_the_example_of_four_brokers_three_partitions_and_three_replicas(growth: Growth) -> None:
    (answer,), image = create(cluster((1, 2, 3, 4)), growth, NewTopic("t", 3, 3))
    layout = [(p.leader, p.replicas) for _, p in image.topics[answer.topic_id].in_order()]
    assert layout == [(1, (1, 2, 3)), (2, (2, 3, 4)), (3, (3, 4, 1))]


@pytest.mark.row(55, 56)
def test_leaders_stay_even_over_many_topics(growth: Growth) -> None:
    topics = tuple(NewTopic(f"t{number}", 1 + number % 4, 2) for number in range(15))
    _, image = create(cluster((1, 2, 3, 4)), growth, *topics)
    leaders = Counter(partition.leader for _, _, partition in image.partitions())
    assert max(leaders.values()) - min(leaders.values()) <= 1


def test_validate_only_answers_and_changes_nothing(growth: Growth) -> None:
    image = cluster()
    answers, later = create(image, growth, NewTopic("ok"), NewTopic("bad name"), validate_only=True)
    assert names(answers) == ["NONE", "INVALID_TOPIC_EXCEPTION"]
    assert later.topics == image.topics


@pytest.mark.row(53)
def test_replicas_placed_by_hand(growth: Growth) -> None:
    by_hand = (Assignment(1, (3, 1)), Assignment(0, (2, 3)))
    (answer,), image = create(cluster(fenced=(2,)), growth, NewTopic("t", assignments=by_hand))
    partitions = image.topics[answer.topic_id].partitions
    assert (partitions[0].replicas, partitions[0].isr, partitions[0].leader) == ((2, 3), (3,), 3)
    assert partitions[1].leader == 3


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic(""), "INVALID_TOPIC_EXCEPTION"),
        (NewTopic(".."), "INVALID_TOPIC_EXCEPTION"),
        (NewTopic("x" * 250), "INVALID_TOPIC_EXCEPTION"),
        (NewTopic("sp ace"), "INVALID_TOPIC_EXCEPTION"),
        (NewTopic("line\n"), "INVALID_TOPIC_EXCEPTION"),
        (NewTopic("__cluster_metadata"), "INVALID_TOPIC_EXCEPTION"),
        (NewTopic("here_1"), "INVALID_TOPIC_EXCEPTION"),
        (NewTopic("here.1"), "TOPIC_ALREADY_EXISTS"),
        (NewTopic("t", 0), "INVALID_PARTITIONS"),
        (NewTopic("t", -2), "INVALID_PARTITIONS"),
        (NewTopic("t", 51), "POLICY_VIOLATION"),
        (NewTopic("t", 1, 4), "INVALID_REPLICATION_FACTOR"),
        (NewTopic("t", 1, 0), "INVALID_REPLICATION_FACTOR"),
        (NewTopic("t", 1, assignments=(Assignment(0, (1,)),)), "INVALID_REQUEST"),
        (NewTopic("t", assignments=(Assignment(1, (1,)),)), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("t", assignments=(Assignment(0, (1, 1)),)), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("t", assignments=(Assignment(0, ()),)), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("t", assignments=(Assignment(0, (9,)),)), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("t", assignments=(Assignment(0, (1,)), Assignment(1, (1, 2)))), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("t", configs=(ConfigEntry("no.such.key", "1"),)), "INVALID_CONFIG"),
        (NewTopic("t", configs=(ConfigEntry("retention.ms", "soon"),)), "INVALID_CONFIG"),
        (NewTopic("t", configs=(ConfigEntry("retention.ms", None),)), "INVALID_CONFIG"),
        (NewTopic("t", configs=(ConfigEntry("retention.ms", "1"),) * 2), "INVALID_CONFIG"),
    ],
)
def test_what_is_wrong_is_refused_with_its_code_and_harms_no_other(
    growth: Growth, topic: NewTopic, error: str
) -> None:
    _, image = create(cluster(), growth, NewTopic("here.1"))
    answers, later = create(image, growth, topic, NewTopic("fine"))
    assert names(answers) == [error, "NONE"]
    assert answers[0].message
    assert set(later.topic_ids) == {"here.1", "fine"}


def test_a_topic_named_twice_and_names_that_collide_within_one_request(growth: Growth) -> None:
    answers, image = create(
        cluster(), growth, NewTopic("a"), NewTopic("a"), NewTopic("b.c"), NewTopic("b_c"), NewTopic("d")
    )
    assert names(answers) == ["INVALID_REQUEST", "INVALID_REQUEST", "NONE", "INVALID_TOPIC_EXCEPTION", "NONE"]
    assert set(image.topic_ids) == {"b.c", "d"}


@pytest.mark.invariant("M12")
def test_deletion_by_name_or_id_and_a_new_topic_of_the_name_has_another_id(growth: Growth) -> None:
    (a, b), image = create(cluster(), growth, NewTopic("a"), NewTopic("b"))
    request = DeleteTopicsRequest(
        (
            TopicReference(name="a"),
            TopicReference(topic_id=b.topic_id),
            TopicReference(name="zz"),
            TopicReference(topic_id=UUID(int=4)),
            TopicReference(),
            TopicReference(name="a"),
        )
    )
    decision = delete_topics(image, request, DEFAULTS)
    image = after(image, decision.records)
    assert names(list(decision.reply(image).topics)) == [
        "NONE",
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
    ]
    assert not image.topics
    (again,), _ = create(image, growth, NewTopic("a"))
    assert again.topic_id != a.topic_id


def test_deletion_can_be_disabled(growth: Growth) -> None:
    _, image = create(cluster(), growth, NewTopic("a"))
    request = DeleteTopicsRequest((TopicReference(name="a"),))
    decision = delete_topics(image, request, replace(DEFAULTS, delete_topics=False))
    assert names(list(decision.reply(image).topics)) == ["TOPIC_DELETION_DISABLED"]
    assert decision.records == ()


@pytest.mark.row(96)
def test_topics_only_grow(growth: Growth) -> None:
    _, image = create(cluster(), growth, NewTopic("a", 2, 2))
    before = dict(image.topics[image.topic_ids["a"]].partitions)
    answers, later = grow(image, growth, TopicGrowth("a", 5))
    assert names(answers) == ["NONE"]
    partitions = later.topics[later.topic_ids["a"]].partitions
    assert sorted(partitions) == [0, 1, 2, 3, 4]
    assert {index: partitions[index] for index in before} == before
    assert all(len(partition.replicas) == 2 for partition in partitions.values())
    for count_ in (5, 4, 0, -1):
        assert names(grow(later, growth, TopicGrowth("a", count_))[0]) == ["INVALID_PARTITIONS"]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (TopicGrowth("zz", 5), "UNKNOWN_TOPIC_OR_PARTITION"),
        (TopicGrowth("a", 4, (Assignment(2, (1, 2)),)), "INVALID_REPLICA_ASSIGNMENT"),
        (TopicGrowth("a", 3, (Assignment(2, (1,)),)), "INVALID_REPLICA_ASSIGNMENT"),
        (TopicGrowth("a", 3, (Assignment(2, (1, 9)),)), "INVALID_REPLICA_ASSIGNMENT"),
        (TopicGrowth("a", 60), "POLICY_VIOLATION"),
        (TopicGrowth("a", 3, (Assignment(2, (3, 1)),)), "NONE"),
    ],
)
def test_growth_is_checked_like_creation(growth: Growth, wanted: TopicGrowth, error: str) -> None:
    _, image = create(cluster(), growth, NewTopic("a", 2, 2))
    answers, _ = grow(image, growth, wanted)
    assert names(answers) == [error]


@pytest.mark.parametrize("name", sorted(INTERNAL))
def test_the_topics_of_coordinators_do_not_grow(growth: Growth, name: str) -> None:
    """Another number of partitions makes other brokers coordinate ids and groups whose state is not theirs."""
    _, image = create(cluster(), growth, NewTopic(name, 2, 2))
    answers, later = grow(image, growth, TopicGrowth(name, 3))
    assert names(answers) == ["INVALID_PARTITIONS"]
    assert "cannot grow" in (answers[0].message or "")
    found = later.topic(name)
    assert found is not None
    assert len(found.partitions) == 2
