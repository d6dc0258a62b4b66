"""ApiVersions (18): what this broker serves, derived from the handlers it has.

The answer to a version we do not know is written in version 0, which every client can read, with error 35;
the client then asks again in a version that the answer names.
"""

import re
from collections.abc import Iterable

from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse
from rookery.core.wire.served import Served, api_versions_response, for_version

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersionsHandler:
    served = Served(API_VERSIONS, 0, 4)

    def __init__(self) -> None:
        self.advertise(())

    def advertise(self, served: Iterable[Served]) -> None:
        """Take over the table, once it is complete."""
        table = tuple(served)
        self._answer = api_versions_response(table)
        self._unsupported = api_versions_response(table, error_code=ErrorCode.UNSUPPORTED_VERSION)

    def handle(self, request: ApiVersionsRequest | None, call: Call) -> ApiVersionsResponse:
        if request is None:
            call.version = 0
            return self._unsupported
        if call.version >= 3:
            name, version = request.client_software_name, request.client_software_version
            if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
            call.client.software_name, call.client.software_version = name, version
        return for_version(self._answer, call.version)
