"""DescribeUserScramCredentials (50): which SCRAM mechanisms users have; null means all users."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int8, Int16, Int32, String, Struct, field


class UserName(Struct):
    name: str = field(String)


class DescribeUserScramCredentialsRequest(Struct):
    users: Sequence[UserName] | None = field(Array(UserName), nullable="0+", default=None)


class CredentialInfo(Struct):
    mechanism: int = field(Int8)
    iterations: int = field(Int32)


class DescribeUserScramCredentialsResult(Struct):
    user: str = field(String)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    credential_infos: Sequence[CredentialInfo] = field(Array(CredentialInfo))


class DescribeUserScramCredentialsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    results: Sequence[DescribeUserScramCredentialsResult] = field(Array(DescribeUserScramCredentialsResult))


DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    50, "DescribeUserScramCredentials", DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    versions="0", flexible="0+",
)
