"""Security APIs of a broker without authorizer and SASL: DescribeAcls (29), CreateAcls (30), DeleteAcls (31),
DescribeUserScramCredentials (50). There are no ACLs, and none can be made. Nobody has SCRAM credentials; tools ask for
them together with the quotas of users, and show neither if this is refused."""

from collections import Counter

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
from rookery.core.wire.apis.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
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
