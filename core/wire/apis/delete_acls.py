"""DeleteAcls (31): delete the bindings that match each filter, and say which those were."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int8, Int16, Int32, String, Struct, field


class DeleteAclsFilter(Struct):
    resource_type_filter: int = field(Int8)
    resource_name_filter: str | None = field(String, nullable="1+", default=None)
    pattern_type_filter: int = field(Int8, default=3)
    principal_filter: str | None = field(String, nullable="1+", default=None)
    host_filter: str | None = field(String, nullable="1+", default=None)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


class DeleteAclsRequest(Struct):
    filters: Sequence[DeleteAclsFilter] = field(Array(DeleteAclsFilter))


class DeleteAclsMatchingAcl(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="1+", default=None)
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    pattern_type: int = field(Int8, default=3)
    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


class DeleteAclsFilterResult(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="1+", default=None)
    matching_acls: Sequence[DeleteAclsMatchingAcl] = field(Array(DeleteAclsMatchingAcl))


class DeleteAclsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    filter_results: Sequence[DeleteAclsFilterResult] = field(Array(DeleteAclsFilterResult))


DELETE_ACLS = Api(31, "DeleteAcls", DeleteAclsRequest, DeleteAclsResponse, versions="1-3", flexible="2+")
