"""ACLs are made and removed by decisions of the controller."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.controller.state import acls as decisions
from rookery.controller.state.acls import create_acls, delete_acls
from rookery.controller.state.defaults import Defaults
from rookery.core.errors import ErrorCode, PolicyViolationError
from rookery.core.metadata.acl_codes import PatternType
from rookery.core.metadata.acls import AclFilter, id_of
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.image import EMPTY, AccessControlEntry, Image
from rookery.core.metadata.requests import CreateAclsRequest, DeleteAclsRequest
from rookery.core.metadata.rpc import METHODS
from rookery.core.metadata.snapshot import snapshot
from tests.unit.controller.state.clusters import after

DEFAULTS = Defaults()
READ = AccessControlEntry(2, "orders", 3, "User:alice", "*", 3, 3)
WRITE = replace(READ, operation=4)
PREFIX = replace(READ, resource_name="ord", pattern_type=4)


def create(image: Image, *acls: AccessControlEntry) -> tuple[list[str], Image]:
    decision = create_acls(image, CreateAclsRequest(acls), DEFAULTS)
    later = after(image, decision.records)
    answers = decision.reply(later).acls
    assert all(bool(answer.message) == bool(answer.error) for answer in answers)
    return [ErrorCode(answer.error).name for answer in answers], later


def delete(image: Image, *filters: AclFilter) -> tuple[list[set[AccessControlEntry] | str], Image]:
    decision = delete_acls(image, DeleteAclsRequest(filters), DEFAULTS)
    later = after(image, decision.records)
    answers = decision.reply(later).filters
    assert not any(answer.error and answer.acls for answer in answers)
    return [ErrorCode(each.error).name if each.error else set(each.acls) for each in answers], later


def held(image: Image) -> set[AccessControlEntry]:
    return set(image.acls.values())


def exactly(acl: AccessControlEntry) -> AclFilter:
    return AclFilter(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def test_acls_are_made_and_removed() -> None:
    errors, image = create(EMPTY, READ, WRITE, PREFIX)
    assert errors == ["NONE"] * 3
    assert held(image) == {READ, WRITE, PREFIX}
    gone, image = delete(image, exactly(READ))
    assert (gone, held(image)) == ([{READ}], {WRITE, PREFIX})
    gone, image = delete(image, AclFilter())
    assert (gone, held(image)) == ([{WRITE, PREFIX}], set())


def test_what_exists_is_made_again_without_a_record() -> None:
    """An answer that was lost is asked for again, perhaps of another controller."""
    _, image = create(EMPTY, READ)
    decision = create_acls(image, CreateAclsRequest((READ, WRITE, WRITE)), DEFAULTS)
    assert [answer.error for answer in decision.reply(image).acls] == [0, 0, 0]
    assert len(decision.records) == 1, "one record for an ACL named twice"
    assert held(after(image, decision.records)) == {READ, WRITE}


def test_one_wrong_acl_does_not_hinder_the_others() -> None:
    errors, image = create(EMPTY, READ, replace(READ, principal="alice"), replace(WRITE, operation=1))
    assert errors == ["NONE", "INVALID_REQUEST", "INVALID_REQUEST"]
    assert held(image) == {READ}


def test_each_filter_answers_for_itself() -> None:
    _, image = create(EMPTY, READ, WRITE, PREFIX)
    matching = AclFilter(resource_name="orders", pattern_type=PatternType.MATCH, operation=3)
    gone, image = delete(image, matching, exactly(READ), exactly(replace(READ, host="h")), AclFilter(operation=0))
    assert gone == [{READ, PREFIX}, {READ}, set(), "INVALID_REQUEST"]
    assert held(image) == {WRITE}
    assert delete(image, matching) == ([set()], image), "asked again, there is nothing left to do"


def test_a_request_changes_only_so_many_at_once() -> None:
    few = Defaults(records_per_request_max=2)
    with pytest.raises(PolicyViolationError, match="3 ACLs would change at once, 2 may"):
        create_acls(EMPTY, CreateAclsRequest((READ, WRITE, PREFIX)), few)
    _, image = create(EMPTY, READ, WRITE, PREFIX)
    with pytest.raises(PolicyViolationError, match="ask in parts"):
        delete_acls(image, DeleteAclsRequest((AclFilter(),)), few)
    assert len(delete_acls(image, DeleteAclsRequest((exactly(READ), exactly(WRITE))), few).records) == 2


def test_filters_are_not_compared_with_acls_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "COMPARED_MAX", 3)
    _, image = create(EMPTY, READ, WRITE)
    with pytest.raises(PolicyViolationError, match="2 filters that may find several of 2 ACLs"):
        delete(image, AclFilter(), AclFilter(principal="User:bob"))
    assert delete(image, *[exactly(READ)] * 10, AclFilter(operation=4))[0] == [{READ}] * 10 + [{WRITE}]


NAMES = st.sampled_from(["a", "ab", "*"])
ACLS = st.builds(
    AccessControlEntry,
    st.sampled_from([2, 3]),
    NAMES,
    st.sampled_from([3, 4]),
    st.sampled_from(["User:a", "User:*"]),
    st.sampled_from(["*", "h"]),
    st.sampled_from([2, 3]),
    st.sampled_from([2, 3]),
)
FILTERS = st.builds(
    AclFilter,
    st.sampled_from([1, 2, 3]),
    st.none() | NAMES,
    st.sampled_from([1, 2, 3, 4]),
    st.sampled_from([None, "User:a", "User:*"]),
    st.sampled_from([None, "*", "h"]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2, 3]),
)


@pytest.mark.invariant("M1")
@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.lists(ACLS, max_size=4) | FILTERS, max_size=12))
def test_the_image_holds_what_was_made_and_not_removed(steps: list[list[AccessControlEntry] | AclFilter]) -> None:
    image, expected = EMPTY, set[AccessControlEntry]()
    for step in steps:
        if isinstance(step, AclFilter):
            (gone,), image = delete(image, step)
            assert gone == {acl for acl in expected if step.matches(acl)}
            assert isinstance(gone, set)
            expected -= gone
        else:
            _, image = create(image, *step)
            expected |= set(step)
        assert held(image) == expected
        assert len(image.acls) == len(expected)
        assert all(acl_id == id_of(acl) for acl_id, acl in image.acls.items())
    loaded = Delta.from_snapshot(EMPTY)
    for record in snapshot(image):
        loaded.replay(record, image.offset)
    assert loaded.apply().after.acls == image.acls


@pytest.mark.parametrize(
    "request_",
    [
        CreateAclsRequest((READ, replace(PREFIX, operation=-1))),
        DeleteAclsRequest((AclFilter(), exactly(READ), AclFilter(resource_name="", operation=-1))),
    ],
)
def test_requests_cross_the_wire_unchanged(request_: CreateAclsRequest | DeleteAclsRequest) -> None:
    """An empty name in a filter is not the same as none."""
    mapping = METHODS[type(request_).__name__.removesuffix("Request")].request
    assert mapping.from_message(mapping.to_message(request_)) == request_
