"""Configuration changes: checked, all or nothing per resource, and never a trap for replicas."""

import pytest

from rookery.controller.state.configs import RULES, alter_configs
from rookery.controller.state.defaults import Defaults
from rookery.core.config.options import Settings
from rookery.core.config.topic import TABLE
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Image, Partition, ResourceType
from rookery.core.metadata.requests import (
    AlterConfigsRequest,
    ConfigAlteration,
    ConfigAnswer,
    ConfigChange,
    ConfigOp,
)
from tests.unit.controller.state.clusters import after, cluster, the_partition, with_partition

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, SUBTRACT = ConfigOp.SET, ConfigOp.DELETE, ConfigOp.APPEND, ConfigOp.SUBTRACT


def one_topic() -> Image:
    return with_partition(cluster(), Partition((1, 2, 3), (1, 2, 3), 1))


def alter(
    image: Image,
    *changes: ConfigChange,
    resource: tuple[int, str] = (TOPIC, "t"),
    replace: bool = False,
    validate_only: bool = False,
    defaults: Defaults | None = None,
) -> tuple[ConfigAnswer, Image]:
    request = AlterConfigsRequest((ConfigAlteration(*resource, changes),), validate_only, replace)
    decision = alter_configs(image, request, RULES, defaults or Defaults())
    later = after(image, decision.records)
    return decision.reply(later).resources[0], later


def test_set_delete_append_and_subtract() -> None:
    image = one_topic()
    _, image = alter(image, ConfigChange("cleanup.policy", SET, "delete"), ConfigChange("segment.ms", SET, "5"))
    _, image = alter(image, ConfigChange("cleanup.policy", APPEND, "compact,delete"))
    assert image.topic_config("t")["cleanup.policy"] == "delete,compact"
    _, image = alter(image, ConfigChange("cleanup.policy", SUBTRACT, "delete"), ConfigChange("segment.ms", DELETE))
    assert image.topic_config("t")["cleanup.policy"] == "compact"
    assert "segment.ms" not in image.topic_config("t")


@pytest.mark.parametrize(
    ("cluster_wide", "static", "op", "words", "becomes"),
    [
        (None, None, APPEND, "compact", "delete,compact"),
        (None, None, SUBTRACT, "compact", "delete"),
        ("compact", None, APPEND, "delete", "compact,delete"),
        (None, "compact", APPEND, "delete", "compact,delete"),
        ("compact,delete", "compact", SUBTRACT, "delete", "compact"),
    ],
)
def test_a_list_changes_from_what_is_in_force(
    cluster_wide: str | None, static: str | None, op: ConfigOp, words: str, becomes: str
) -> None:
    image = one_topic()
    if cluster_wide is not None:
        _, image = alter(image, ConfigChange("log.cleanup.policy", SET, cluster_wide), resource=(BROKER, ""))
    defaults = Defaults(topics=Settings(TABLE).having({"cleanup.policy": static} if static else {}))
    _, image = alter(image, ConfigChange("cleanup.policy", op, words), defaults=defaults)
    assert image.topic_config("t")["cleanup.policy"] == becomes


def test_a_list_of_a_broker_changes_from_what_is_in_force() -> None:
    change = ConfigChange("log.cleanup.policy", APPEND, "compact")
    _, image = alter(one_topic(), change, resource=(BROKER, ""))
    assert image.config(BROKER, "")["log.cleanup.policy"] == "delete,compact"
    _, image = alter(image, ConfigChange("log.cleanup.policy", SUBTRACT, "delete"), resource=(BROKER, "1"))
    assert image.config(BROKER, "1")["log.cleanup.policy"] == "compact"


def test_nothing_is_subtracted_that_leaves_nothing() -> None:
    image = one_topic()
    answer, later = alter(image, ConfigChange("cleanup.policy", SUBTRACT, "delete"))
    assert (ErrorCode(answer.error), later.configs) == (ErrorCode.INVALID_CONFIG, image.configs)
    throttled = "leader.replication.throttled.replicas"
    _, image = alter(image, ConfigChange(throttled, SET, "0:1"))
    answer, image = alter(image, ConfigChange(throttled, SUBTRACT, "0:1"))
    assert (answer.error, image.topic_config("t")[throttled]) == (0, ""), "where nothing is the default it may be left"


def test_what_does_not_change_is_not_written() -> None:
    _, image = alter(one_topic(), ConfigChange("segment.ms", SET, "5"))
    _, same = alter(image, ConfigChange("segment.ms", SET, "5"), ConfigChange("flush.ms", DELETE))
    assert same.offset == image.offset


@pytest.mark.parametrize(
    ("resource", "change", "error"),
    [
        ((TOPIC, "zz"), ConfigChange("segment.ms", SET, "5"), "UNKNOWN_TOPIC_OR_PARTITION"),
        ((TOPIC, "t"), ConfigChange("no.such", SET, "5"), "INVALID_CONFIG"),
        ((TOPIC, "t"), ConfigChange("segment.ms", SET, "x"), "INVALID_CONFIG"),
        ((TOPIC, "t"), ConfigChange("segment.ms", SET, None), "INVALID_REQUEST"),
        ((TOPIC, "t"), ConfigChange("segment.ms", APPEND, "5"), "INVALID_CONFIG"),
        ((TOPIC, "t"), ConfigChange("no.such", DELETE), "INVALID_CONFIG"),
        ((TOPIC, "t"), ConfigChange("cleanup.policy", APPEND, "burn"), "INVALID_CONFIG"),
        ((BROKER, "9"), ConfigChange("log.cleaner.threads", SET, "2"), "BROKER_ID_NOT_REGISTERED"),
        ((BROKER, "x"), ConfigChange("log.cleaner.threads", SET, "2"), "INVALID_REQUEST"),
        ((BROKER, "1"), ConfigChange("node.id", SET, "2"), "INVALID_REQUEST"),
        ((99, "x"), ConfigChange("a", SET, "2"), "INVALID_REQUEST"),
    ],
)
def test_wrong_changes_are_refused(resource: tuple[int, str], change: ConfigChange, error: str) -> None:
    image = one_topic()
    answer, later = alter(image, change, resource=resource)
    assert ErrorCode(answer.error).name == error
    assert answer.message
    assert later.configs == image.configs


def test_one_wrong_change_spoils_its_resource_and_no_other() -> None:
    request = AlterConfigsRequest(
        (
            ConfigAlteration(TOPIC, "t", (ConfigChange("flush.ms", SET, "1"), ConfigChange("bad", SET, "1"))),
            ConfigAlteration(BROKER, "", (ConfigChange("min.insync.replicas", SET, "2"),)),
            ConfigAlteration(TOPIC, "t", ()),
        )
    )
    image = one_topic()
    decision = alter_configs(image, request, RULES, Defaults())
    later = after(image, decision.records)
    errors = [ErrorCode(answer.error).name for answer in decision.reply(later).resources]
    assert errors == ["INVALID_CONFIG", "NONE", "INVALID_REQUEST"]
    assert "flush.ms" not in later.topic_config("t")
    assert dict(later.config(BROKER, "")) == {"min.insync.replicas": "2"}


def test_the_older_api_replaces_everything() -> None:
    _, image = alter(one_topic(), ConfigChange("segment.ms", SET, "5"))
    _, image = alter(image, ConfigChange("flush.ms", SET, "7"), replace=True)
    assert dict(image.topic_config("t")) == {"flush.ms": "7"}


def test_validate_only_writes_nothing() -> None:
    image = one_topic()
    answer, later = alter(image, ConfigChange("flush.ms", SET, "7"), validate_only=True)
    assert answer.error == 0
    assert later.offset == image.offset


@pytest.mark.invariant("M4")
@pytest.mark.parametrize("resource", [(TOPIC, "t"), (BROKER, "")])
def test_lowering_min_isr_empties_the_elr_in_the_same_batch(resource: tuple[int, str]) -> None:
    """From now on the only replica in sync may commit alone, so the eligible one would fall behind."""
    image = with_partition(cluster(), Partition((1, 2, 3), (1,), 1, elr=(2,)), min_isr=2)
    if resource == (BROKER, ""):
        _, image = alter(image, ConfigChange("min.insync.replicas", SET, "2"), resource=(BROKER, ""))
        _, image = alter(image, ConfigChange("min.insync.replicas", DELETE))
        assert the_partition(image).elr == (2,)
    _, later = alter(image, ConfigChange("min.insync.replicas", SET, "1"), resource=resource)
    assert the_partition(later).elr == ()


@pytest.mark.invariant("P16")
def test_a_reassignment_that_waits_for_more_in_sync_ends_when_fewer_suffice() -> None:
    """The replica that stays is away: from now on the added one suffices."""
    moving = Partition((1, 3, 2), (2, 3), 2, adding_replicas=(3,), removing_replicas=(2,))
    image = with_partition(cluster(fenced=(1,)), moving, min_isr=2)
    _, later = alter(image, ConfigChange("min.insync.replicas", SET, "1"))
    done = the_partition(later)
    assert (done.replicas, done.isr, done.leader, done.reassigning) == ((1, 3), (3,), 3, False)


@pytest.mark.invariant("M4")
@pytest.mark.parametrize(
    ("resource", "change"),
    [
        ((BROKER, "1"), ConfigChange("min.insync.replicas", SET, "1")),
        ((BROKER, ""), ConfigChange("min.insync.replicas", DELETE)),
    ],
)
def test_with_elr_leaders_and_controller_count_with_one_min_isr(
    resource: tuple[int, str], change: ConfigChange
) -> None:
    _, image = alter(one_topic(), ConfigChange("min.insync.replicas", SET, "2"), resource=(BROKER, ""))
    answer, later = alter(image, change, resource=resource)
    assert ErrorCode(answer.error).name == "INVALID_CONFIG"
    assert "while eligible.leader.replicas.version is on" in (answer.message or "")
    assert later.configs == image.configs
    answer, _ = alter(image, ConfigChange("log.cleaner.threads", SET, "2"), resource=(BROKER, ""), replace=True)
    assert ErrorCode(answer.error).name == "INVALID_CONFIG", "the older API would remove what it does not name"


def test_without_elr_a_broker_may_have_its_own_min_isr() -> None:
    image = with_partition(cluster(elr=False), Partition((1, 2, 3), (1, 2, 3), 1))
    answer, later = alter(image, ConfigChange("min.insync.replicas", SET, "1"), resource=(BROKER, "1"))
    assert answer.error == 0
    assert dict(later.config(BROKER, "1")) == {"min.insync.replicas": "1"}


@pytest.mark.parametrize("resource", [(TOPIC, "t"), (BROKER, "")])
@pytest.mark.parametrize("elr", [True, False])
def test_an_unclean_election_that_is_allowed_is_held_at_once(resource: tuple[int, str], elr: bool) -> None:
    isr, eligible = ((), (3,)) if elr else ((3,), ())
    lost = Partition((1, 2, 3), isr, -1, elr=eligible)
    image = with_partition(cluster(fenced=(3,), elr=elr), lost, min_isr=1)
    if resource == (BROKER, ""):
        _, image = alter(image, ConfigChange("unclean.leader.election.enable", DELETE))
    assert not the_partition(image).has_leader
    _, later = alter(image, ConfigChange("unclean.leader.election.enable", SET, "true"), resource=resource)
    assert (the_partition(later).leader, the_partition(later).isr) == (1, (1,))
