"""DescribeDelegationToken (41): the tokens of some owners; null means all."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bytes, Int16, Int32, Int64, String, Struct, field


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = field(String)
    principal_name: str = field(String)


class DescribeDelegationTokenRequest(Struct):
    owners: Sequence[DescribeDelegationTokenOwner] | None = field(
        Array(DescribeDelegationTokenOwner), nullable="1+", default=None
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = field(String)
    principal_name: str = field(String)


class DescribedDelegationToken(Struct):
    principal_type: str = field(String)
    principal_name: str = field(String)
    token_requester_principal_type: str = field(String, "3+", default="")
    token_requester_principal_name: str = field(String, "3+", default="")
    issue_timestamp: int = field(Int64)
    expiry_timestamp: int = field(Int64)
    max_timestamp: int = field(Int64)
    token_id: str = field(String)
    hmac: bytes = field(Bytes)
    renewers: Sequence[DescribedDelegationTokenRenewer] = field(Array(DescribedDelegationTokenRenewer))


class DescribeDelegationTokenResponse(Struct):
    error_code: int = field(Int16, default=0)
    tokens: Sequence[DescribedDelegationToken] = field(Array(DescribedDelegationToken))
    throttle_time_ms: int = field(Int32, default=0)


DESCRIBE_DELEGATION_TOKEN = Api(
    41, "DescribeDelegationToken", DescribeDelegationTokenRequest, DescribeDelegationTokenResponse,
    versions="1-3", flexible="2+",
)
