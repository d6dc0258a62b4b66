"""DescribeUserScramCredentials (50): there are none, since nobody logs in with SASL yet. Tools ask for them
together with the quotas of users, and show neither if this is refused."""

from collections import Counter

from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from rookery.core.wire.served import Served


class DescribeUserScramCredentialsHandler:
    served = Served(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)

    def handle(
        self, request: DescribeUserScramCredentialsRequest, call: Call
    ) -> DescribeUserScramCredentialsResponse:
        asked = Counter(user.name for user in request.users or ())
        return DescribeUserScramCredentialsResponse(
            results=[_missing(name, times, call) for name, times in sorted(asked.items())]
        )


def _missing(name: str, times: int, call: Call) -> DescribeUserScramCredentialsResult:
    code, text = ErrorCode.RESOURCE_NOT_FOUND, f"user {name!r} has no SCRAM credentials"
    if times > 1:
        code, text = ErrorCode.DUPLICATE_RESOURCE, f"user {name!r} is named twice"
    call.error(code)
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=text, credential_infos=()
    )
