"""Feature levels: switched on for all, and only what all understand."""

import pytest

from rookery.controller.state.defaults import Defaults
from rookery.controller.state.features import bootstrap, update_features
from rookery.core.errors import ErrorCode
from rookery.core.metadata.features import ELR_VERSION
from rookery.core.metadata.image import EMPTY, Image, LeaderRecoveryState, Partition, ResourceType
from rookery.core.metadata.records import ConfigRecord
from rookery.core.metadata.requests import FeatureUpdate, UpdateFeaturesRequest, UpgradeType
from tests.unit.controller.state.clusters import after, cluster, the_partition, with_partition


def update(image: Image, *updates: FeatureUpdate) -> tuple[list[str], Image]:
    decision = update_features(image, UpdateFeaturesRequest(updates), Defaults(min_insync_replicas=2))
    later = after(image, decision.records)
    return [ErrorCode(answer.error).name for answer in decision.reply(later).features], later


def test_a_new_cluster_has_everything_switched_on() -> None:
    image = after(EMPTY, bootstrap())
    assert image.features[ELR_VERSION] == 1


def test_levels_go_down_only_when_asked_to() -> None:
    image = cluster()
    assert update(image, FeatureUpdate(ELR_VERSION, 0))[0] == ["INVALID_UPDATE_VERSION"]
    errors, later = update(image, FeatureUpdate(ELR_VERSION, 0, UpgradeType.SAFE_DOWNGRADE))
    assert errors == ["NONE"]
    assert ELR_VERSION not in later.features
    assert update(later, FeatureUpdate(ELR_VERSION, 1, UpgradeType.SAFE_DOWNGRADE))[0] == ["INVALID_UPDATE_VERSION"]
    assert update(later, FeatureUpdate(ELR_VERSION, 1))[1].features[ELR_VERSION] == 1


@pytest.mark.parametrize("wanted", [FeatureUpdate(ELR_VERSION, 9), FeatureUpdate("no.such.feature", 1)])
def test_what_somebody_does_not_understand_fails_all_of_the_request(wanted: FeatureUpdate) -> None:
    image = cluster()
    down = FeatureUpdate(ELR_VERSION, 0, UpgradeType.SAFE_DOWNGRADE)
    errors, later = update(image, down, wanted)
    assert errors == ["NONE", "INVALID_UPDATE_VERSION"]
    assert later.features == image.features


OFF = FeatureUpdate(ELR_VERSION, 0, UpgradeType.SAFE_DOWNGRADE)


@pytest.mark.invariant("M4")
def test_with_elr_the_cluster_has_one_min_isr_and_brokers_have_none_of_their_own() -> None:
    own = ConfigRecord(ResourceType.BROKER, "1", "min.insync.replicas", "3")
    errors, image = update(after(cluster(elr=False), [own]), FeatureUpdate(ELR_VERSION, 1))
    assert errors == ["NONE"]
    assert dict(image.config(ResourceType.BROKER, "")) == {"min.insync.replicas": "2"}
    assert dict(image.config(ResourceType.BROKER, "1")) == {}


def test_a_min_isr_that_the_cluster_has_is_kept() -> None:
    given = ConfigRecord(ResourceType.BROKER, "", "min.insync.replicas", "1")
    _, image = update(after(cluster(elr=False), [given]), FeatureUpdate(ELR_VERSION, 1))
    assert image.config(ResourceType.BROKER, "")["min.insync.replicas"] == "1"


@pytest.mark.parametrize(
    ("elr", "last_known", "isr", "recovery"),
    [((2,), (), (2,), LeaderRecoveryState.RECOVERED), ((), (3,), (3,), LeaderRecoveryState.RECOVERING)],
)
def test_switching_elr_off_leaves_somebody_who_may_lead(
    elr: tuple[int, ...], last_known: tuple[int, ...], isr: tuple[int, ...], recovery: LeaderRecoveryState
) -> None:
    down = with_partition(
        cluster(fenced=(2, 3)), Partition((1, 2, 3), (), -1, elr=elr, last_known_elr=last_known), min_isr=2
    )
    found = the_partition(update(down, OFF)[1])
    assert (found.isr, found.elr, found.last_known_elr, found.leader) == (isr, (), (), -1)
    up = with_partition(cluster(), Partition((1, 2, 3), (), -1, elr=elr, last_known_elr=last_known), min_isr=2)
    found = the_partition(update(up, OFF)[1])
    assert (found.isr, found.leader, found.leader_recovery_state) == (isr, isr[0], recovery)


def test_switching_elr_off_changes_nothing_for_those_in_sync() -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (1,), 1, elr=(2,)), min_isr=2)
    found = the_partition(update(image, OFF)[1])
    assert (found.isr, found.elr, found.leader, found.leader_epoch) == ((1,), (), 1, 0)
