"""UpdateFeatures (57): raise or lower finalized feature levels; v1 can try without doing."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, String, Struct, field


class FeatureUpdateKey(Struct):
    feature: str = field(String)
    max_version_level: int = field(Int16)
    allow_downgrade: bool = field(Bool, "0", default=False)
    upgrade_type: int = field(Int8, "1+", default=1)


class UpdateFeaturesRequest(Struct):
    timeout_ms: int = field(Int32, default=60000)
    feature_updates: Sequence[FeatureUpdateKey] = field(Array(FeatureUpdateKey))
    validate_only: bool = field(Bool, "1+", default=False)


class UpdatableFeatureResult(Struct):
    feature: str = field(String)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0-1", default=None)


class UpdateFeaturesResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    results: Sequence[UpdatableFeatureResult] = field(Array(UpdatableFeatureResult), "0-1", default=())


UPDATE_FEATURES = Api(
    57, "UpdateFeatures", UpdateFeaturesRequest, UpdateFeaturesResponse,
    versions="0-2", flexible="0+",
)
