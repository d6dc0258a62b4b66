"""ACLs of a broker with an authorizer: DescribeAcls (29), CreateAcls (30), DeleteAcls (31). The table has those of
security_disabled.py in their place, until all handlers ask the authorizer.

To see ACLs needs DESCRIBE on the cluster, to change them ALTER.
"""

import asyncio
from dataclasses import replace
from itertools import groupby

from rookery.broker.handlers.ports import AccessPort, ClusterPort, ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import ClusterAuthorizationFailedError, ErrorCode, KafkaError
from rookery.core.metadata.acls import (
    CLUSTER_NAME,
    AclFilter,
    AclOperation,
    AclResourceType,
    check_filter,
    id_of,
)
from rookery.core.metadata.image import AccessControlEntry, Changes, Image
from rookery.core.metadata.requests import AclAnswer, AclDeletion
from rookery.core.metadata.requests import CreateAclsRequest as AskCreate
from rookery.core.metadata.requests import DeleteAclsRequest as AskDelete
from rookery.core.security.authorizer import Authorizer
from rookery.core.wire.apis.create_acls import (
    CREATE_ACLS,
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from rookery.core.wire.apis.delete_acls import (
    DELETE_ACLS,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from rookery.core.wire.apis.describe_acls import (
    DESCRIBE_ACLS,
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from rookery.core.wire.served import Served

VISIBLE_WITHIN_S = 5.0
"""What was committed is answered as done even if this broker is slow to hear of it."""
COMPARED_AT_ONCE = 5000
"""ACLs looked at between two turns of the event loop."""


class Access:
    """What callers may do, by the ACLs that this broker knows."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def on_changes(self, changes: Changes) -> None:
        if changes.acls:
            self._authorizer = replace(self._authorizer, index=self._authorizer.index.moved(changes))

    def cluster(self, operation: AclOperation, call: Call) -> bool:
        client = call.client
        return self._authorizer.allows(
            client.principal, client.address, operation, AclResourceType.CLUSTER, CLUSTER_NAME
        )


class DescribeAclsHandler:
    served = Served(DESCRIBE_ACLS, 1, 3)

    def __init__(self, cluster: ClusterPort, access: AccessPort) -> None:
        self._cluster = cluster
        self._access = access

    async def handle(self, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
        try:
            _check(self._access, AclOperation.DESCRIBE, call)
            wanted = _filter(request)
            check_filter(wanted)
        except KafkaError as error:
            call.error(error.code)
            return DescribeAclsResponse(error_code=error.code, error_message=error.message, resources=())
        found = await _found(self._cluster.image, wanted)
        found.sort(key=lambda acl: (*_resource(acl), acl.principal, acl.host, acl.operation, acl.permission_type))
        return DescribeAclsResponse(
            resources=[
                DescribeAclsResource(
                    resource_type=type,
                    resource_name=name,
                    pattern_type=pattern,
                    acls=[_description(acl) for acl in acls],
                )
                for (type, name, pattern), acls in groupby(found, _resource)
            ]
        )


class CreateAclsHandler:
    served = Served(CREATE_ACLS, 1, 3)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort, access: AccessPort) -> None:
        self._cluster = cluster
        self._controller = controller
        self._access = access

    async def handle(self, request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
        acls = tuple(map(_acl, request.creations))
        try:
            _check(self._access, AclOperation.ALTER, call)
            answers = (await self._controller.ask(AskCreate(acls))).acls
        except KafkaError as error:
            answers = (AclAnswer(error.code, error.message),) * len(acls)
        made = [id_of(acl) for acl, answer in zip(acls, answers, strict=True) if not answer.error]
        await self._cluster.until(lambda image: all(each in image.acls for each in made), VISIBLE_WITHIN_S)
        for answer in answers:
            _count_error(answer.error, call)
        return CreateAclsResponse(
            results=[AclCreationResult(error_code=each.error, error_message=each.message) for each in answers]
        )


class DeleteAclsHandler:
    served = Served(DELETE_ACLS, 1, 3)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort, access: AccessPort) -> None:
        self._cluster = cluster
        self._controller = controller
        self._access = access

    async def handle(self, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
        filters = tuple(map(_filter, request.filters))
        try:
            _check(self._access, AclOperation.ALTER, call)
            answers = (await self._controller.ask(AskDelete(filters))).filters
        except KafkaError as error:
            answers = (AclDeletion(error=error.code, message=error.message),) * len(filters)
        gone = {id_of(acl) for answer in answers for acl in answer.acls}
        await self._cluster.until(lambda image: not any(each in image.acls for each in gone), VISIBLE_WITHIN_S)
        for answer in answers:
            _count_error(answer.error, call)
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(
                    error_code=answer.error,
                    error_message=answer.message,
                    matching_acls=[_matching(acl) for acl in answer.acls],
                )
                for answer in answers
            ]
        )


def _check(access: AccessPort, operation: AclOperation, call: Call) -> None:
    if not access.cluster(operation, call):
        raise ClusterAuthorizationFailedError(f"this needs {operation.name} on the cluster")


def _count_error(code: int, call: Call) -> None:
    if code:
        call.error(ErrorCode(code))


async def _found(image: Image, wanted: AclFilter) -> list[AccessControlEntry]:
    """What a filter finds; others have their turn meanwhile."""
    exact = wanted.exact
    if exact is not None:
        return [exact] if id_of(exact) in image.acls else []
    found = []
    for number, acl in enumerate(image.acls.values(), 1):
        if wanted.matches(acl):
            found.append(acl)
        if number % COMPARED_AT_ONCE == 0:
            await asyncio.sleep(0)
    return found


def _filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _acl(asked: AclCreation) -> AccessControlEntry:
    return AccessControlEntry(
        asked.resource_type,
        asked.resource_name,
        asked.resource_pattern_type,
        asked.principal,
        asked.host,
        asked.operation,
        asked.permission_type,
    )


def _resource(acl: AccessControlEntry) -> tuple[int, str, int]:
    return acl.resource_type, acl.resource_name, acl.pattern_type


def _description(acl: AccessControlEntry) -> AclDescription:
    return AclDescription(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
    )


def _matching(acl: AccessControlEntry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
