"""What a broker serves, and the ApiVersions answer that follows from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)


@dataclass(frozen=True, slots=True)
class Served:
    """One API with the versions a handler answers.

    `advertise_min` may be lower than `min`: some clients read features out of the lower bound of versions
    they never send.
    """

    api: Api[Any, Any]
    min: int
    max: int
    advertise_min: int | None = None

    def __post_init__(self) -> None:
        api = self.api
        if not api.min_version <= self.min <= self.max <= api.max_version:
            raise ValueError(
                f"{api.name} is declared for versions {api.min_version} to {api.max_version}, "
                f"so {self.min} to {self.max} cannot be served"
            )
        if not 0 <= self.lowest_advertised <= self.min:
            raise ValueError(f"{api.name} serves from {self.min} on, cannot advertise {self.advertise_min}")

    @property
    def lowest_advertised(self) -> int:
        return self.min if self.advertise_min is None else self.advertise_min


def api_versions_response(
    served: Iterable[Served],
    *,
    error_code: int = 0,
    supported: Iterable[SupportedFeatureKey] = (),
    finalized: Iterable[FinalizedFeatureKey] = (),
    finalized_epoch: int = -1,
) -> ApiVersionsResponse:
    """The table clients choose their versions from, in the order of the keys."""
    ranges = sorted((one.api.key, one.lowest_advertised, one.max) for one in served)
    for (key, *_), (following, *_) in pairwise(ranges):
        if key == following:
            raise ValueError(f"api key {key} is served twice")
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=[
            ApiVersion(api_key=key, min_version=first, max_version=last) for key, first, last in ranges
        ],
        supported_features=list(supported),
        finalized_features=list(finalized),
        finalized_features_epoch=finalized_epoch,
    )


def for_version(response: ApiVersionsResponse, version: int) -> ApiVersionsResponse:
    """The answer as this version may show it: before v4 a feature that starts at 0 is left out."""
    if version >= 4:
        return response
    return ApiVersionsResponse(
        error_code=response.error_code,
        api_keys=response.api_keys,
        throttle_time_ms=response.throttle_time_ms,
        supported_features=[one for one in response.supported_features if one.min_version > 0],
        finalized_features=response.finalized_features,
        finalized_features_epoch=response.finalized_features_epoch,
    )
