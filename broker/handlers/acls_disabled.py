"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31) of a broker without an authorizer: there are none, and
none can be made."""

from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import Handler
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.create_acls import (
    CREATE_ACLS,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from rookery.core.wire.apis.delete_acls import (
    DELETE_ACLS,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from rookery.core.wire.apis.describe_acls import DESCRIBE_ACLS, DescribeAclsRequest, DescribeAclsResponse
from rookery.core.wire.served import Served

CODE = ErrorCode.SECURITY_DISABLED
WHY = "this broker has no authorizer, so nothing is forbidden and there are no ACLs"


class DescribeAclsDisabledHandler:
    served = Served(DESCRIBE_ACLS, 1, 3)

    def handle(self, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
        call.error(CODE)
        return DescribeAclsResponse(error_code=CODE, error_message=WHY, resources=())


class CreateAclsDisabledHandler:
    served = Served(CREATE_ACLS, 1, 3)

    def handle(self, request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
        call.error(CODE)
        return CreateAclsResponse(
            results=[AclCreationResult(error_code=CODE, error_message=WHY) for _ in request.creations]
        )


class DeleteAclsDisabledHandler:
    served = Served(DELETE_ACLS, 1, 3)

    def handle(self, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
        call.error(CODE)
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(error_code=CODE, error_message=WHY, matching_acls=())
                for _ in request.filters
            ]
        )


def acl_handlers() -> list[Handler]:
    return [DescribeAclsDisabledHandler(), CreateAclsDisabledHandler(), DeleteAclsDisabledHandler()]
