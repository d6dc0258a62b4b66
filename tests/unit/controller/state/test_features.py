"""Feature levels: switched on for all, and only what all understand."""

import pytest

from rookery.controller.state.features import bootstrap, update_features
from rookery.core.errors import ErrorCode
from rookery.core.metadata.features import ELR_VERSION
from rookery.core.metadata.image import EMPTY, Image
from rookery.core.metadata.requests import FeatureUpdate, UpdateFeaturesRequest, UpgradeType
from tests.unit.controller.state.clusters import after, cluster


def update(image: Image, *updates: FeatureUpdate) -> tuple[list[str], Image]:
    decision = update_features(image, UpdateFeaturesRequest(updates))
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
