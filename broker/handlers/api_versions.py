"""ApiVersions (18): what this broker serves, derived from the handlers it has.

The answer to a version we do not know is written in version 0, which every client can read, with error 35;
the client then asks again in a version that the answer names.

All clients get the same answer, so it is built and encoded once for each version, and again when the cluster's
finalised features change. Only a throttled client gets an answer of its own.
"""

import re
from collections.abc import Callable, Iterable

from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.metadata.features import SUPPORTED
from rookery.core.wire.apis.api_versions import (
    API_VERSIONS,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.served import Served, api_versions_response, for_version

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersionsHandler:
    served = Served(API_VERSIONS, 0, 4)

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster
        self.advertise(())

    def advertise(self, served: Iterable[Served]) -> None:
        """Set the table of served APIs, once it is complete."""
        self._table = tuple(served)
        self._unsupported = api_versions_response(self._table, error_code=ErrorCode.UNSUPPORTED_VERSION)
        self._features: object = None
        self._answers: dict[int, ApiVersionsResponse] = {}  # by version, as are the encoded ones
        self._encoded: dict[int, bytes] = {}

    def writer(self, version: int) -> Callable[[ApiVersionsResponse], list[Buffer]]:
        """Encodes the responses of this version."""
        encode = API_VERSIONS.response_writers[version]

        def write(response: ApiVersionsResponse) -> list[Buffer]:
            if response is not self._answers.get(version):
                return encode(response)  # type: ignore[no-any-return]
            encoded = self._encoded.get(version)
            if encoded is None:
                encoded = self._encoded[version] = b"".join(encode(response))
            return [encoded]

        return write

    def _renew(self) -> None:
        """Build the answer for the cluster's current feature levels."""
        image = self._cluster.image
        self._features = image.features
        levels = [(name, level) for name, level in sorted(image.features.items()) if level > 0]
        self._newest = api_versions_response(
            self._table,
            supported=[
                SupportedFeatureKey(
                    name=each.name, min_version=each.min_version, max_version=each.max_version
                )
                for each in SUPPORTED
            ],
            finalized=[
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in levels
            ],
            finalized_epoch=max(0, image.offset),
        )
        self._answers.clear()
        self._encoded.clear()

    def _answer(self, version: int) -> ApiVersionsResponse:
        if self._cluster.image.features is not self._features:
            self._renew()
        answer = self._answers.get(version)
        if answer is None:
            answer = self._answers[version] = for_version(self._newest, version)
        return answer

    def handle(self, request: ApiVersionsRequest | None, call: Call) -> ApiVersionsResponse:
        if request is None:
            call.version = 0
            return self._unsupported
        if call.version >= 3:
            name, version = request.client_software_name, request.client_software_version
            if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
            call.client.software_name, call.client.software_version = name, version
        return self._answer(call.version)
