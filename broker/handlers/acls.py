"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31). To see ACLs needs DESCRIBE on the cluster, to change them ALTER.

On a broker without authorizer there are none, and none can be made: the handlers `...Disabled` answer that.
"""

import asyncio
from itertools import groupby

from rookery.broker.handlers.authorize import ALTER, DESCRIBE, check_cluster
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.server.audit import shown
from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import Handler
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.acls import AclFilter, check_filter, described, id_of
from rookery.core.metadata.image import AccessControlEntry, Image
from rookery.core.metadata.requests import AclAnswer, AclDeletion
from rookery.core.metadata.requests import CreateAclsRequest as AskCreate
from rookery.core.metadata.requests import DeleteAclsRequest as AskDelete
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

_log = get_logger("authorizer")

VISIBLE_WITHIN_S = 5.0
"""What was committed is answered as done even if this broker receives it late."""
COMPARED_AT_ONCE = 5000
"""ACLs looked at between two turns of the event loop."""


class DescribeAclsHandler:
    served = Served(DESCRIBE_ACLS, 1, 3)

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster

    async def handle(self, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
        try:
            check_cluster(call, DESCRIBE)
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

    def __init__(self, cluster: ClusterPort, controller: ControllerPort) -> None:
        self._cluster = cluster
        self._controller = controller

    async def handle(self, request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
        acls = tuple(map(_acl, request.creations))
        try:
            check_cluster(call, ALTER)
            answers = (await self._controller.ask(AskCreate(acls))).acls
        except KafkaError as error:
            answers = (AclAnswer(error.code, error.message),) * len(acls)
        made = []
        for acl, answer in zip(acls, answers, strict=True):
            if not answer.error:
                made.append(id_of(acl))
                _note("acl.created", acl, call)
        await self._cluster.until(lambda image: all(each in image.acls for each in made), VISIBLE_WITHIN_S)
        for answer in answers:
            _count_error(answer.error, call)
        return CreateAclsResponse(
            results=[AclCreationResult(error_code=each.error, error_message=each.message) for each in answers]
        )


class DeleteAclsHandler:
    served = Served(DELETE_ACLS, 1, 3)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort) -> None:
        self._cluster = cluster
        self._controller = controller

    async def handle(self, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
        filters = tuple(map(_filter, request.filters))
        try:
            check_cluster(call, ALTER)
            answers = (await self._controller.ask(AskDelete(filters))).filters
        except KafkaError as error:
            answers = (AclDeletion(error=error.code, message=error.message),) * len(filters)
        found = {id_of(acl): acl for answer in answers for acl in answer.acls}
        gone = found.keys()
        for acl in found.values():
            _note("acl.deleted", acl, call)
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


def _note(event: str, acl: AccessControlEntry, call: Call) -> None:
    """Write to the audit log who changed ACLs."""
    _log.info(event, acl=shown(described(acl)), principal=shown(str(call.client.principal)), host=call.client.address)


def _count_error(code: int, call: Call) -> None:
    if code:
        call.error(ErrorCode(code))


def acl_handlers(cluster: ClusterPort, controller: ControllerPort) -> list[Handler]:
    return [
        DescribeAclsHandler(cluster),
        CreateAclsHandler(cluster, controller),
        DeleteAclsHandler(cluster, controller),
    ]


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


DISABLED = ErrorCode.SECURITY_DISABLED
WHY_DISABLED = "this broker has no authorizer, so nothing is forbidden and there are no ACLs"


class DescribeAclsDisabledHandler:
    served = Served(DESCRIBE_ACLS, 1, 3)

    def handle(self, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
        call.error(DISABLED)
        return DescribeAclsResponse(error_code=DISABLED, error_message=WHY_DISABLED, resources=())


class CreateAclsDisabledHandler:
    served = Served(CREATE_ACLS, 1, 3)

    def handle(self, request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
        call.error(DISABLED)
        return CreateAclsResponse(
            results=[AclCreationResult(error_code=DISABLED, error_message=WHY_DISABLED) for _ in request.creations]
        )


class DeleteAclsDisabledHandler:
    served = Served(DELETE_ACLS, 1, 3)

    def handle(self, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
        call.error(DISABLED)
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(error_code=DISABLED, error_message=WHY_DISABLED, matching_acls=())
                for _ in request.filters
            ]
        )


def disabled_acl_handlers() -> list[Handler]:
    return [DescribeAclsDisabledHandler(), CreateAclsDisabledHandler(), DeleteAclsDisabledHandler()]
