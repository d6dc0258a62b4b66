"""What the client of a connection may do, and when the answers change."""

from dataclasses import replace

from rookery.broker.server.access import (
    CACHED_MAX,
    GROUP,
    KEPT_NAME_MAX,
    OPEN,
    TOPIC,
    CheckedAccess,
    Denial,
    Guard,
)
from rookery.broker.server.client import Client
from rookery.core.metadata.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from rookery.core.metadata.image import AccessControlEntry
from rookery.core.security.authorizer import OPERATIONS_OF, AclIndex, Authorizer
from rookery.core.security.principal import ANONYMOUS, KafkaPrincipal

READ, WRITE, DESCRIBE, ALTER = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER
ALICE = KafkaPrincipal("User", "alice")
ADMIN = KafkaPrincipal("User", "admin")


def acl(name: str, operation: int, type: int = TOPIC, allow: bool = True) -> AccessControlEntry:
    permission = AclPermission.ALLOW if allow else AclPermission.DENY
    return AccessControlEntry(type, name, PatternType.LITERAL, "User:alice", "*", operation, permission)


def guard(*acls: AccessControlEntry, denials: list[Denial] | None = None) -> Guard:
    authorizer = Authorizer(AclIndex.of(acls), frozenset({str(ADMIN)}))
    return Guard(authorizer) if denials is None else Guard(authorizer, denials.append)


def test_without_authorizer_everything_is_allowed_by_one_object() -> None:
    first, second = Client("PLAINTEXT", "10.0.0.1"), Client("PLAINTEXT", "10.0.0.2")
    assert first.access is second.access is OPEN
    assert not OPEN.restricted
    assert OPEN.topic(WRITE, "orders")
    assert OPEN.cluster(ALTER)
    assert OPEN.allowed_somewhere(WRITE, TOPIC)
    assert OPEN.operations(TOPIC, "orders") == OPERATIONS_OF[TOPIC] == 3576


def test_a_client_is_anonymous_until_it_is_identified() -> None:
    client = Client("SASL_PLAINTEXT", "10.0.0.1", guard=guard(acl("orders", WRITE)))
    assert client.principal == ANONYMOUS
    assert not client.access.topic(WRITE, "orders")
    client.identify(ALICE)
    assert client.access.topic(WRITE, "orders")
    client.identify(ANONYMOUS)
    assert not client.access.topic(WRITE, "orders")


def test_only_denials_of_what_was_asked_for_are_handed_on() -> None:
    denials: list[Denial] = []
    access = guard(acl("orders", READ), denials=denials).access(ALICE, "10.0.0.1")
    access.serving("Fetch")
    assert access.topic(READ, "orders")
    assert access.topic(DESCRIBE, "orders")
    assert not access.shows(READ, TOPIC, "payments")
    assert denials == []
    assert not access.group(READ, "orders")
    [denial] = denials
    assert (denial.principal, denial.host, denial.operation, denial.type) == ("User:alice", "10.0.0.1", READ, GROUP)
    assert (denial.name, denial.api) == ("orders", "Fetch")


def test_requests_are_counted() -> None:
    one = guard(acl("orders", READ))
    access = one.access(ALICE, "10.0.0.1")
    for _ in range(3):
        access.topic(READ, "orders")
    access.topic(WRITE, "orders")
    assert (one.allowed, one.denied) == (3, 1)


def test_new_acls_hold_at_once_for_connections_that_asked_before() -> None:
    one = guard(acl("orders", READ))
    access = one.access(ALICE, "10.0.0.1")
    before = access.version
    assert access.topic(READ, "orders")
    assert not access.topic(WRITE, "orders")
    one.authorizer = replace(one.authorizer, index=AclIndex.of([acl("orders", WRITE)]))
    assert access.version is not before
    assert not access.topic(READ, "orders")
    assert access.topic(WRITE, "orders")
    assert access.shows(WRITE, TOPIC, "orders")
    one.authorizer = replace(one.authorizer, index=AclIndex())
    assert access.operations(TOPIC, "orders") == 0
    assert not access.allowed_somewhere(WRITE, TOPIC)


def test_what_a_connection_keeps_is_bounded() -> None:
    one = guard(acl("*", READ))
    access = CheckedAccess(one, str(ALICE), "10.0.0.1")
    most = 0
    for number in range(2 * CACHED_MAX + 10):
        assert access.topic(READ, f"topic-{number}")
        most = max(most, access.cached)
    assert most == CACHED_MAX


def test_long_names_are_not_kept() -> None:
    access = CheckedAccess(guard(acl("*", READ)), str(ALICE), "10.0.0.1")
    for number in range(10):
        assert access.topic(READ, str(number) * (KEPT_NAME_MAX + 1))
    assert access.cached == 0


def test_operations_are_those_that_the_type_knows() -> None:
    access = guard().access(ADMIN, "10.0.0.1")
    assert [access.operations(each, "x") for each in (TOPIC, GROUP, AclResourceType.CLUSTER)] == [3576, 3400, 8096]
