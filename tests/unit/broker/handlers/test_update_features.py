"""UpdateFeatures in all its versions: levels go up, go down when that is asked for, and stay when one is wrong."""

import pytest

from rookery.core.errors import ErrorCode
from rookery.core.metadata.features import ELR_VERSION
from rookery.core.metadata.image import FeatureRange
from rookery.core.metadata.records import FeatureLevelRecord, RegisterBrokerRecord
from rookery.core.wire.apis.update_features import (
    UPDATE_FEATURES,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.unit.broker.talk import QuietBroker

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


async def ask(
    broker: QuietBroker, version: int, *wanted: tuple[str, int, int], validate_only: bool = False
) -> UpdateFeaturesResponse:
    """Each wish is a feature, a level and a way."""
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, allow_downgrade=way != UPGRADE)
        if version == 0
        else FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=way)
        for name, level, way in wanted
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    answer: UpdateFeaturesResponse = await broker.talk().ask(UPDATE_FEATURES, version, request)
    return answer


def level(broker: QuietBroker) -> int:
    return broker.cluster.image.features.get(ELR_VERSION, 0)


@pytest.fixture
def at_one(broker: QuietBroker) -> QuietBroker:
    """All brokers understand the feature's level 1, and it is agreed on."""
    known = broker.cluster.image.brokers[1]
    features = (FeatureRange(ELR_VERSION, 0, 1),)
    broker.cluster.commit(
        [
            RegisterBrokerRecord(1, known.incarnation_id, known.endpoints, features=features, fenced=False),
            FeatureLevelRecord(ELR_VERSION, 1),
        ]
    )
    return broker


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("way", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
async def test_levels_go_down_and_up(at_one: QuietBroker, version: int, way: int) -> None:
    down = await ask(at_one, version, (ELR_VERSION, 0, way))
    assert (down.error_code, level(at_one)) == (ErrorCode.NONE, 0)
    assert [(one.feature, one.error_code) for one in down.results] == ([(ELR_VERSION, 0)] if version < 2 else [])
    up = await ask(at_one, version, (ELR_VERSION, 1, UPGRADE))
    assert (up.error_code, level(at_one)) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("version", [1, 2])
async def test_who_only_asks_changes_nothing(at_one: QuietBroker, version: int) -> None:
    answer = await ask(at_one, version, (ELR_VERSION, 0, SAFE_DOWNGRADE), validate_only=True)
    assert (answer.error_code, level(at_one)) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    "wrong", [(ELR_VERSION, 0, UPGRADE), (ELR_VERSION, 2, UPGRADE), ("no.such.feature", 1, UPGRADE)]
)
async def test_a_wrong_level_is_refused(at_one: QuietBroker, version: int, wrong: tuple[str, int, int]) -> None:
    answer = await ask(at_one, version, wrong)
    told = (answer.error_code, answer.error_message)
    if version < 2:
        told = (answer.results[0].error_code, answer.results[0].error_message)
    assert told[0] == ErrorCode.INVALID_UPDATE_VERSION
    assert wrong[0] in (told[1] or "")
    assert level(at_one) == 1


@pytest.mark.parametrize("version", [1, 2])
async def test_an_unknown_way_is_refused(at_one: QuietBroker, version: int) -> None:
    answer = await ask(at_one, version, (ELR_VERSION, 0, 9))
    assert (answer.error_code, level(at_one)) == (ErrorCode.INVALID_REQUEST, 1)
