"""AlterUserScramCredentials (51): add, replace or delete SCRAM credentials."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bytes, Int8, Int16, Int32, String, Struct, field


class ScramCredentialDeletion(Struct):
    name: str = field(String)
    mechanism: int = field(Int8)


class ScramCredentialUpsertion(Struct):
    name: str = field(String)
    mechanism: int = field(Int8)
    iterations: int = field(Int32)
    salt: bytes = field(Bytes)
    salted_password: bytes = field(Bytes)


class AlterUserScramCredentialsRequest(Struct):
    deletions: Sequence[ScramCredentialDeletion] = field(Array(ScramCredentialDeletion))
    upsertions: Sequence[ScramCredentialUpsertion] = field(Array(ScramCredentialUpsertion))


class AlterUserScramCredentialsResult(Struct):
    user: str = field(String)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)


class AlterUserScramCredentialsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    results: Sequence[AlterUserScramCredentialsResult] = field(Array(AlterUserScramCredentialsResult))


ALTER_USER_SCRAM_CREDENTIALS = Api(
    51, "AlterUserScramCredentials", AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
    versions="0", flexible="0+",
)
