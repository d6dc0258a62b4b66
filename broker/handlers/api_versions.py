"""ApiVersions (18): what this broker serves, derived from the handlers it has.

The answer to a version we do not know is written in version 0, which every client can read, with error 35;
the client then asks again in a version that the answer names.
"""

import re
from collections.abc import Iterable

from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import Serves
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.api_versions import (
    API_VERSIONS,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersionsHandler:
    serves = Serves(API_VERSIONS, 0, 4)

    def __init__(self) -> None:
        self._keys: tuple[ApiVersion, ...] = ()

    def advertise(self, served: Iterable[Serves]) -> None:
        """Take over the table once it is complete."""
        self._keys = tuple(
            ApiVersion(api_key=one.api.key, min_version=one.advertised_first, max_version=one.last)
            for one in served
        )

    def handle(self, request: ApiVersionsRequest | None, call: Call) -> ApiVersionsResponse:
        if request is None:
            call.version = 0
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._keys)
        if call.version >= 3:
            name, version = request.client_software_name, request.client_software_version
            if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
            call.client.software_name, call.client.software_version = name, version
        return ApiVersionsResponse(api_keys=self._keys)
