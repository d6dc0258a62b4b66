"""The ApiVersions table follows from what is served."""

import pytest

from rookery.core.wire.apis.api_versions import API_VERSIONS, SupportedFeatureKey
from rookery.core.wire.apis.fetch import FETCH
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.served import Served, api_versions_response, for_version


def test_the_table_is_sorted_and_shows_the_advertised_minimum() -> None:
    served = [Served(FETCH, 4, 16), Served(API_VERSIONS, 0, 4), Served(PRODUCE, 3, 11, advertise_min=0)]
    response = api_versions_response(served)
    assert [(one.api_key, one.min_version, one.max_version) for one in response.api_keys] == [
        (0, 0, 11), (1, 4, 16), (18, 0, 4),
    ]
    assert response.error_code == 0
    for version in range(5):
        raw = b"".join(API_VERSIONS.encode_response(version, response))
        assert API_VERSIONS.decode_response(version, raw).api_keys == response.api_keys


@pytest.mark.parametrize(
    ("low", "high", "advertised"), [(2, 11, None), (3, 14, None), (9, 8, None), (3, 9, 4), (3, 9, -1)]
)
def test_ranges_that_cannot_be_are_refused(low: int, high: int, advertised: int | None) -> None:
    with pytest.raises(ValueError, match="Produce"):
        Served(PRODUCE, low, high, advertised)


def test_an_api_is_served_once() -> None:
    with pytest.raises(ValueError, match="api key 1 is served twice"):
        api_versions_response([Served(FETCH, 4, 12), Served(FETCH, 13, 16)])


def test_features_that_start_at_zero_are_shown_from_version_4_on() -> None:
    features = [
        SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
        SupportedFeatureKey(name="metadata.version", min_version=7, max_version=25),
    ]
    response = api_versions_response([Served(API_VERSIONS, 0, 4)], supported=features, finalized_epoch=5)
    assert [one.name for one in for_version(response, 4).supported_features] == [
        "group.version", "metadata.version",
    ]
    older = for_version(response, 3)
    assert [one.name for one in older.supported_features] == ["metadata.version"]
    assert older.finalized_features_epoch == 5
