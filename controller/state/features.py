"""Feature levels: what all nodes understand, switched on for all of them at once."""

from collections.abc import Sequence

from rookery.controller.state.decision import Decision, decided
from rookery.core.errors import (
    ErrorCode,
    FeatureUpdateFailedError,
    InvalidUpdateVersionError,
    KafkaError,
    UnsupportedVersionError,
)
from rookery.core.metadata.features import SUPPORTED
from rookery.core.metadata.image import FeatureRange, Image
from rookery.core.metadata.records import FeatureLevelRecord
from rookery.core.metadata.requests import (
    FeatureAnswer,
    FeatureUpdate,
    UpdateFeaturesReply,
    UpdateFeaturesRequest,
    UpgradeType,
)


def bootstrap() -> list[FeatureLevelRecord]:
    """The first records of a cluster: everything switched on."""
    return [FeatureLevelRecord(feature.name, feature.max_version) for feature in SUPPORTED]


def check_supported(image: Image, features: Sequence[FeatureRange], broker_id: int) -> None:
    """Raises UNSUPPORTED_VERSION if a broker does not understand what is switched on."""
    ranges = {feature.name: feature for feature in features}
    for name, level in sorted(image.features.items()):
        known = ranges.get(name)
        if known is None or not known.min_version <= level <= known.max_version:
            has = "does not know it" if known is None else f"has {known.min_version} to {known.max_version}"
            raise UnsupportedVersionError(f"{name} is at {level}, broker {broker_id} {has}: upgrade the broker")


def update_features(image: Image, request: UpdateFeaturesRequest) -> Decision[UpdateFeaturesReply]:
    """All of the updates or none; the answers tell which are wrong."""
    answers = []
    for update in request.updates:
        try:
            _check(image, update)
        except KafkaError as error:
            answers.append(FeatureAnswer(update.name, error.code, error.message))
        else:
            answers.append(FeatureAnswer(update.name))
    failed = any(answer.error != ErrorCode.NONE for answer in answers)
    records = [FeatureLevelRecord(update.name, update.level) for update in request.updates]
    return decided(() if failed or request.validate_only else records, UpdateFeaturesReply(tuple(answers)))


def _check(image: Image, update: FeatureUpdate) -> None:
    current = image.features.get(update.name, 0)
    if update.level < current and update.upgrade_type is UpgradeType.UPGRADE:
        raise InvalidUpdateVersionError(f"{update.name} is at {current}: ask for a downgrade to go back")
    for who, features in _everybody(image):
        known = next((feature for feature in features if feature.name == update.name), None)
        if known is None or not known.min_version <= update.level <= known.max_version:
            raise FeatureUpdateFailedError(f"{update.name}={update.level} is not understood by {who}")


def _everybody(image: Image) -> list[tuple[str, Sequence[FeatureRange]]]:
    brokers = [(f"broker {broker.id}", broker.features) for _, broker in sorted(image.brokers.items())]
    return [("the controller", SUPPORTED), *brokers]
