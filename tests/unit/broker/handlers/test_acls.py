"""The ACL APIs of a broker that has an authorizer: what they answer, and to whom."""

from random import Random
from typing import Any

import pytest

from rookery.broker.handlers import acls as module
from rookery.broker.handlers.acls import CreateAclsHandler, DeleteAclsHandler, DescribeAclsHandler
from rookery.broker.server.access import Guard
from rookery.broker.server.client import Call, Client
from rookery.broker.server.dispatch import Route
from rookery.broker.server.request_metrics import RouteMetrics
from rookery.core.errors import ErrorCode, NotControllerError
from rookery.core.metadata.requests import Request
from rookery.core.security.authorizer import Authorizer
from rookery.core.security.principal import KafkaPrincipal
from rookery.core.wire.apis.create_acls import AclCreation, CreateAclsRequest
from rookery.core.wire.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from rookery.core.wire.apis.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.unit.broker.one_broker import OneNodeCluster

ADMIN, ALICE = "User:admin", "User:alice"
CLUSTER, TOPIC = 4, 2
READ, WRITE, ALTER, DESCRIBE = 3, 4, 7, 8
LITERAL, PREFIXED, MATCH, ANY = 3, 4, 2, 1
VERSIONS = (1, 2, 3)


class Rig:
    """The handlers, an image with the controller's decisions, and an authorizer that follows it."""

    def __init__(self) -> None:
        self.cluster = OneNodeCluster(Random(1))
        self.guard = Guard(Authorizer(super_users=frozenset({ADMIN})))
        self.cluster.on_changes = self.guard.on_changes
        self.create = CreateAclsHandler(self.cluster, self.cluster)
        self.delete = DeleteAclsHandler(self.cluster, self.cluster)
        self.describe = DescribeAclsHandler(self.cluster)
        self.errors: list[str] = []

    async def ask(self, handler: Any, request: Any, who: str = ADMIN, host: str = "10.0.0.1") -> Any:
        """The answer, which must be one that can be sent in every version."""
        route = Route(handler, RouteMetrics("test"))
        client = Client("PLAINTEXT", host, KafkaPrincipal.parse(who), self.guard)
        answer = await handler.handle(request, Call(route, 3, 0, "c", client))
        for version in VERSIONS:
            assert route.answer(version, 0, answer)
        self.errors = list(route.metrics.errors)
        return answer

    async def made(self, *rules: AclCreation, who: str = ADMIN) -> list[int]:
        answer = await self.ask(self.create, CreateAclsRequest(creations=rules), who)
        return [each.error_code for each in answer.results]

    async def removed(self, *filters: DeleteAclsFilter, who: str = ADMIN) -> list[int | set[tuple[str, int, int]]]:
        answer = await self.ask(self.delete, DeleteAclsRequest(filters=filters), who)
        return [
            each.error_code or {(one.resource_name, one.pattern_type, one.operation) for one in each.matching_acls}
            for each in answer.filter_results
        ]

    async def seen(self, who: str = ADMIN, **wanted: Any) -> DescribeAclsResponse:
        asked = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
        answer = await self.ask(self.describe, DescribeAclsRequest(**{**asked, **wanted}), who)
        assert isinstance(answer, DescribeAclsResponse)
        return answer


def rule(name: str = "orders", operation: int = READ, pattern: int = LITERAL, **other: Any) -> AclCreation:
    fields: dict[str, Any] = {"resource_type": TOPIC, "principal": ALICE, "host": "*", "permission_type": 3, **other}
    return AclCreation(resource_name=name, operation=operation, resource_pattern_type=pattern, **fields)


def wanted(name: str | None = None, pattern: int = ANY, operation: int = ANY, **other: Any) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=other.pop("resource_type_filter", ANY),
        resource_name_filter=name,
        pattern_type_filter=pattern,
        operation=operation,
        permission_type=ANY,
        **other,
    )


def listed(answer: DescribeAclsResponse) -> list[tuple[str, int, list[int]]]:
    assert answer.error_code == 0
    return [(each.resource_name, each.pattern_type, [acl.operation for acl in each.acls]) for each in answer.resources]


async def test_acls_are_made_shown_by_resource_and_removed() -> None:
    rig = Rig()
    assert await rig.made(rule(), rule(operation=WRITE), rule("ord", pattern=PREFIXED), rule()) == [0, 0, 0, 0]
    assert listed(await rig.seen()) == [("ord", PREFIXED, [READ]), ("orders", LITERAL, [READ, WRITE])]
    gone = await rig.removed(wanted("orders", operation=WRITE), wanted("nothing"))
    assert gone == [{("orders", LITERAL, WRITE)}, set()]
    assert await rig.removed(wanted()) == [{("orders", LITERAL, READ), ("ord", PREFIXED, READ)}]
    assert listed(await rig.seen()) == []
    assert rig.errors == []


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"resource_name_filter": "orders", "pattern_type_filter": MATCH}, ["*", "ord", "orders"]),
        ({"resource_name_filter": "orders"}, ["orders"]),
        ({"pattern_type_filter": PREFIXED}, ["ord"]),
        ({"principal_filter": "User:bob"}, []),
        ({"host_filter": "*", "operation": READ}, ["*", "ord", "orders"]),
        (
            {
                "resource_type_filter": TOPIC,
                "resource_name_filter": "orders",
                "pattern_type_filter": LITERAL,
                "principal_filter": ALICE,
                "host_filter": "*",
                "operation": READ,
                "permission_type": 3,
            },
            ["orders"],
        ),
    ],
)
async def test_filters(monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], found: list[str]) -> None:
    monkeypatch.setattr(module, "COMPARED_AT_ONCE", 2)
    rig = Rig()
    await rig.made(rule(), rule("*"), rule("ord", pattern=PREFIXED))
    assert [name for name, _, _ in listed(await rig.seen(**asked))] == found


async def test_wrong_acls_and_filters_are_refused_one_by_one() -> None:
    rig = Rig()
    invalid = ErrorCode.INVALID_REQUEST
    assert await rig.made(rule(principal="alice"), rule(), rule(pattern=MATCH)) == [invalid, 0, invalid]
    assert rig.errors == ["INVALID_REQUEST"]
    assert await rig.removed(wanted(operation=0), wanted()) == [invalid, {("orders", LITERAL, READ)}]
    answer = await rig.seen(operation=0)
    assert (answer.error_code, answer.resources) == (invalid, ())
    assert answer.error_message


async def test_to_change_acls_needs_alter_and_to_see_them_describe() -> None:
    rig = Rig()
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await rig.made(rule())
    assert await rig.made(rule("new"), rule(principal="wrong"), who=ALICE) == [refused, refused]
    assert await rig.removed(wanted(), wanted(operation=0), who=ALICE) == [refused, refused]
    hidden = await rig.seen(ALICE)
    assert (hidden.error_code, hidden.resources) == (refused, ())
    assert rig.errors == ["CLUSTER_AUTHORIZATION_FAILED"]
    assert len(rig.cluster.image.acls) == 1, "nothing was changed"

    await rig.made(rule("kafka-cluster", DESCRIBE, resource_type=CLUSTER))
    assert len(listed(await rig.seen(ALICE))) == 2
    assert await rig.made(rule("new"), who=ALICE) == [refused]
    await rig.made(rule("kafka-cluster", ALTER, resource_type=CLUSTER))
    assert await rig.made(rule("new"), who=ALICE) == [0]
    mine = wanted("kafka-cluster", operation=ALTER)
    assert await rig.removed(mine, who=ALICE) == [{("kafka-cluster", LITERAL, ALTER)}]
    assert await rig.made(rule("newer"), who=ALICE) == [refused], "what is removed holds no longer"


async def test_a_denied_address_is_denied_however_it_is_written() -> None:
    rig = Rig()
    await rig.made(
        rule("kafka-cluster", ALTER, resource_type=CLUSTER),
        rule("kafka-cluster", ALTER, resource_type=CLUSTER, permission_type=2, host="10.0.0.1"),
    )
    request = CreateAclsRequest(creations=[rule()])
    for host, error in (("10.0.0.2", 0), ("10.0.0.1", 31), ("::ffff:10.0.0.1", 31)):
        answer = await rig.ask(rig.create, request, ALICE, host)
        assert [each.error_code for each in answer.results] == [error]


async def test_without_a_controller_every_item_says_so() -> None:
    rig = Rig()

    async def ask(request: Request[Any]) -> Any:
        raise NotControllerError("no controller answers")

    rig.cluster.ask = ask  # type: ignore[method-assign]
    assert await rig.made(rule(), rule("new")) == [ErrorCode.NOT_CONTROLLER] * 2
    assert await rig.removed(wanted()) == [ErrorCode.NOT_CONTROLLER]
