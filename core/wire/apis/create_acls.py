"""CreateAcls (30): add bindings."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int8, Int16, Int32, String, Struct, field


class AclCreation(Struct):
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    resource_pattern_type: int = field(Int8, default=3)
    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


class CreateAclsRequest(Struct):
    creations: Sequence[AclCreation] = field(Array(AclCreation))


class AclCreationResult(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="1+", default=None)


class CreateAclsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    results: Sequence[AclCreationResult] = field(Array(AclCreationResult))


CREATE_ACLS = Api(30, "CreateAcls", CreateAclsRequest, CreateAclsResponse, versions="1-3", flexible="2+")
