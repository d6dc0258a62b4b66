"""ACLs and filters as values: what can be, and what a filter finds."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.errors import InvalidRequestError
from rookery.core.metadata.acl_codes import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from rookery.core.metadata.acls import AclFilter, check_acl, check_filter, described, id_of
from rookery.core.metadata.image import AccessControlEntry

ACL = AccessControlEntry(
    AclResourceType.TOPIC, "foo", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW
)
PREFIX = replace(ACL, pattern_type=PatternType.PREFIXED)
STAR = replace(ACL, resource_name="*")
NAMED = st.builds(
    lambda name, principal: replace(ACL, resource_name=name, principal=principal),
    st.text(max_size=3),
    st.text(max_size=3),
)


def test_codes_are_kafkas() -> None:
    assert [each.name for each in AclOperation][:4] == ["UNKNOWN", "ANY", "ALL", "READ"]
    assert (AclOperation.TWO_PHASE_COMMIT, AclOperation.CLUSTER_ACTION, AclOperation.ALTER_CONFIGS) == (15, 9, 11)
    assert (AclResourceType.TOPIC, AclResourceType.USER) == (2, 7)
    assert (PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED) == (2, 3, 4)
    assert (AclPermission.DENY, AclPermission.ALLOW) == (2, 3)


@pytest.mark.parametrize(
    "good",
    [
        ACL,
        PREFIX,
        STAR,
        replace(ACL, resource_type=AclResourceType.CLUSTER, resource_name=CLUSTER_NAME),
        replace(ACL, principal="user:alice"),
        replace(ACL, host="db.example"),
        replace(ACL, operation=AclOperation.ALL),
        replace(ACL, operation=AclOperation.CLUSTER_ACTION),
    ],
)
def test_acls_that_can_be(good: AccessControlEntry) -> None:
    check_acl(good)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (replace(ACL, resource_type=AclResourceType.UNKNOWN), "resource_type UNKNOWN"),
        (replace(ACL, resource_type=AclResourceType.ANY), "resource_type ANY"),
        (replace(ACL, resource_type=99), "resource_type 99"),
        (replace(ACL, pattern_type=PatternType.MATCH), "pattern_type MATCH.*use one of LITERAL, PREFIXED"),
        (replace(ACL, pattern_type=PatternType.ANY), "pattern_type ANY"),
        (replace(ACL, operation=AclOperation.ANY), "operation ANY"),
        (replace(ACL, operation=-1), "operation -1"),
        (replace(ACL, permission_type=AclPermission.ANY), "permission_type ANY"),
        (replace(ACL, resource_name=""), "empty"),
        (replace(ACL, resource_type=AclResourceType.CLUSTER), "called kafka-cluster, not 'foo'"),
        (replace(ACL, principal="alice"), "write User:alice"),
        (replace(ACL, principal=""), "has no type"),
    ],
)
def test_acls_that_cannot_be(bad: AccessControlEntry, why: str) -> None:
    with pytest.raises(InvalidRequestError, match=why):
        check_acl(bad)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), [ACL, PREFIX, STAR]),
        (AclFilter(resource_name="foo"), [ACL, PREFIX]),
        (AclFilter(resource_name="foo", pattern_type=PatternType.LITERAL), [ACL]),
        (AclFilter(resource_name="foo", pattern_type=PatternType.PREFIXED), [PREFIX]),
        (AclFilter(pattern_type=PatternType.PREFIXED), [PREFIX]),
        (AclFilter(resource_name="foo", pattern_type=PatternType.MATCH), [ACL, PREFIX, STAR]),
        (AclFilter(resource_name="foobar", pattern_type=PatternType.MATCH), [PREFIX, STAR]),
        (AclFilter(resource_name="bar", pattern_type=PatternType.MATCH), [STAR]),
        (AclFilter(pattern_type=PatternType.MATCH), [ACL, PREFIX, STAR]),
        (AclFilter(resource_name="*", pattern_type=PatternType.LITERAL), [STAR]),
        (AclFilter(resource_name=""), []),
        (AclFilter(resource_type=AclResourceType.GROUP), []),
        (AclFilter(principal="User:bob"), []),
        (AclFilter(principal="User:alice", host="*", operation=3, permission_type=3), [ACL, PREFIX, STAR]),
        (AclFilter(host="10.0.0.1"), []),
        (AclFilter(operation=AclOperation.ALL), []),
        (AclFilter(permission_type=AclPermission.DENY), []),
    ],
)
def test_what_filters_find(wanted: AclFilter, found: list[AccessControlEntry]) -> None:
    check_filter(wanted)
    assert [each for each in (ACL, PREFIX, STAR) if wanted.matches(each)] == found


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(resource_type=0),
        AclFilter(resource_type=8),
        AclFilter(pattern_type=0),
        AclFilter(pattern_type=5),
        AclFilter(operation=0),
        AclFilter(operation=16),
        AclFilter(permission_type=0),
        AclFilter(permission_type=4),
    ],
)
def test_filters_with_unknown_codes_are_refused(wanted: AclFilter) -> None:
    with pytest.raises(InvalidRequestError, match="is not known"):
        check_filter(wanted)


@given(one=NAMED, other=NAMED)
def test_the_id_says_what_the_acl_says(one: AccessControlEntry, other: AccessControlEntry) -> None:
    assert (id_of(one) == id_of(other)) == (one == other)


def test_the_id_is_the_same_in_every_release() -> None:
    plain = AccessControlEntry(2, "foo", 3, "User:alice", "*", 3, 3)
    assert id_of(ACL) == id_of(plain) == UUID("512b952c-ce1a-5f17-a22a-ebac994fa155")


def test_an_acl_for_people() -> None:
    assert described(PREFIX) == "ALLOW User:alice from * READ on TOPIC:PREFIXED:foo"
    assert described(replace(ACL, operation=77)).startswith("ALLOW User:alice from * 77 on")
