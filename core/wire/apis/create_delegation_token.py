"""CreateDelegationToken (38): a token that stands for a user; v3 lets one user ask for another."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bytes, Int16, Int32, Int64, String, Struct, field


class CreatableRenewers(Struct):
    principal_type: str = field(String)
    principal_name: str = field(String)


class CreateDelegationTokenRequest(Struct):
    owner_principal_type: str | None = field(String, "3+", nullable="3+", default=None)
    owner_principal_name: str | None = field(String, "3+", nullable="3+", default=None)
    renewers: Sequence[CreatableRenewers] = field(Array(CreatableRenewers))
    max_lifetime_ms: int = field(Int64)


class CreateDelegationTokenResponse(Struct):
    error_code: int = field(Int16, default=0)
    principal_type: str = field(String)
    principal_name: str = field(String)
    token_requester_principal_type: str = field(String, "3+", default="")
    token_requester_principal_name: str = field(String, "3+", default="")
    issue_timestamp: int = field(Int64)
    expiry_timestamp: int = field(Int64)
    max_timestamp: int = field(Int64)
    token_id: str = field(String)
    hmac: bytes = field(Bytes)
    throttle_time_ms: int = field(Int32, default=0)


CREATE_DELEGATION_TOKEN = Api(
    38, "CreateDelegationToken", CreateDelegationTokenRequest, CreateDelegationTokenResponse,
    versions="1-3", flexible="2+",
)
