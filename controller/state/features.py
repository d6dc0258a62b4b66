"""Feature levels: what all nodes understand, switched on for all of them at once."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rookery.controller.state.decision import Decision, decided, replayed
from rookery.controller.state.defaults import Defaults, settled_min_isr
from rookery.controller.state.partitions import Electorate
from rookery.core.errors import (
    ErrorCode,
    InvalidUpdateVersionError,
    KafkaError,
    UnsupportedVersionError,
)
from rookery.core.metadata.features import METADATA_VERSION, RELEASE, Release, not_understood
from rookery.core.metadata.image import FeatureRange, Image
from rookery.core.metadata.records import FeatureLevelRecord, Record
from rookery.core.metadata.requests import (
    FeatureAnswer,
    FeatureUpdate,
    UpdateFeaturesReply,
    UpdateFeaturesRequest,
    UpgradeType,
)

_Everybody = list[tuple[str, Sequence[FeatureRange] | None]]


def bootstrap(release: Release = RELEASE) -> list[FeatureLevelRecord]:
    """The first records of a cluster: everything switched on."""
    return [FeatureLevelRecord(feature.name, feature.max_version) for feature in release.features]


def check_supported(image: Image, features: Sequence[FeatureRange], broker_id: int) -> None:
    """Raises UNSUPPORTED_VERSION if a broker does not understand what is switched on."""
    lacking = not_understood(image.features, features)
    if lacking:
        raise UnsupportedVersionError(
            f"the cluster's {lacking}, on broker {broker_id}: run a release there that understands it"
        )


def update_features(
    image: Image,
    request: UpdateFeaturesRequest,
    defaults: Defaults,
    release: Release = RELEASE,
    voters: Mapping[int, Sequence[FeatureRange] | None] = MappingProxyType({}),
) -> Decision[UpdateFeaturesReply]:
    """All of the updates or none; the answers show which are wrong. `voters` are the other controllers: one that
    has not reported its supported features may be too old."""
    everybody = _everybody(image, release, voters)
    answers = []
    for update in request.updates:
        try:
            _check(image, update, everybody)
        except KafkaError as error:
            answers.append(FeatureAnswer(update.name, error.code, error.message))
        else:
            answers.append(FeatureAnswer(update.name))
    failed = any(answer.error != ErrorCode.NONE for answer in answers)
    reply = UpdateFeaturesReply(tuple(answers))
    if failed or request.validate_only:
        return decided((), reply)
    return decided(with_consequences(image, _levels(request), defaults), reply)


def with_consequences(image: Image, records: Sequence[Record], defaults: Defaults) -> list[Record]:
    """`records` change what is switched on, and more has to follow in the same batch: what ELR rests on, and
    partitions that are decided by other rules."""
    configs = settled_min_isr(replayed(image, records), defaults)
    after = replayed(image, [*records, *configs])
    return [*records, *configs, *Electorate(after, defaults).reconsidered()]


def _levels(request: UpdateFeaturesRequest) -> list[FeatureLevelRecord]:
    return [FeatureLevelRecord(update.name, update.level) for update in request.updates]


def _check(image: Image, update: FeatureUpdate, everybody: _Everybody) -> None:
    current = image.features.get(update.name, 0)
    if update.level < current and update.upgrade_type is UpgradeType.UPGRADE:
        raise InvalidUpdateVersionError(f"{update.name} is at {current}: ask for a downgrade to go back")
    if update.level > current and update.upgrade_type is not UpgradeType.UPGRADE:
        raise InvalidUpdateVersionError(f"{update.name} is at {current}: {update.level} is no downgrade")
    if update.level < current and update.name == METADATA_VERSION:
        raise InvalidUpdateVersionError(f"{update.name} cannot go back: what it brought stands in the metadata log")
    for who, features in everybody:
        if features is None:
            raise InvalidUpdateVersionError(f"{who} has not reported its supported features; is it running?")
        known = next((feature for feature in features if feature.name == update.name), None)
        if known is None or not known.min_version <= update.level <= known.max_version:
            raise InvalidUpdateVersionError(f"{update.name}={update.level} is not understood by {who}")


def _everybody(
    image: Image, release: Release, voters: Mapping[int, Sequence[FeatureRange] | None]
) -> _Everybody:
    brokers = [(f"broker {broker.id}", broker.features) for _, broker in sorted(image.brokers.items())]
    others = [(f"controller {voter}", features) for voter, features in sorted(voters.items())]
    return [("the controller", release.features), *others, *brokers]
