"""ApiVersions (18): which APIs and versions the broker speaks; the first thing a client asks.

v3 names the client's software and is flexible, but its response header never is: the client cannot know yet.
v4 lets a feature's minimum version be 0.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int16, Int32, Int64, String, Struct, field


class ApiVersionsRequest(Struct):
    client_software_name: str = field(String, "3+", default="")
    client_software_version: str = field(String, "3+", default="")


class ApiVersion(Struct):
    api_key: int = field(Int16)
    min_version: int = field(Int16)
    max_version: int = field(Int16)


class SupportedFeatureKey(Struct):
    name: str = field(String)
    min_version: int = field(Int16)
    max_version: int = field(Int16)


class FinalizedFeatureKey(Struct):
    name: str = field(String)
    max_version_level: int = field(Int16)
    min_version_level: int = field(Int16)


class ApiVersionsResponse(Struct):
    error_code: int = field(Int16, default=0)
    api_keys: Sequence[ApiVersion] = field(Array(ApiVersion))
    throttle_time_ms: int = field(Int32, "1+", default=0)
    supported_features: Sequence[SupportedFeatureKey] = field(
        Array(SupportedFeatureKey), "3+", tag=0, default=()
    )
    finalized_features_epoch: int = field(Int64, "3+", tag=1, default=-1)
    finalized_features: Sequence[FinalizedFeatureKey] = field(
        Array(FinalizedFeatureKey), "3+", tag=2, default=()
    )
    zk_migration_ready: bool = field(Bool, "3+", tag=3, default=False)


API_VERSIONS = Api(18, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse, versions="0-4", flexible="3+")
