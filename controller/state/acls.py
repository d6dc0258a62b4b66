"""ACLs: created and deleted. They are checked before they are written, so that every broker can rely on what it
reads."""

from dataclasses import astuple
from uuid import UUID

from rookery.controller.state.decision import Decision, decided
from rookery.controller.state.defaults import Defaults
from rookery.core.errors import KafkaError, PolicyViolationError
from rookery.core.metadata.acls import AclFilter, check_acl, check_filter, id_of
from rookery.core.metadata.image import Image
from rookery.core.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from rookery.core.metadata.requests import (
    AclAnswer,
    AclDeletion,
    CreateAclsReply,
    CreateAclsRequest,
    DeleteAclsReply,
    DeleteAclsRequest,
)

COMPARED_MAX = 1_000_000
"""A request may compare so many ACLs with filters, which takes about a second."""


def create_acls(image: Image, request: CreateAclsRequest, defaults: Defaults) -> Decision[CreateAclsReply]:
    """Creating an ACL that exists, or that is named twice, succeeds: a repeated request gets the same answer."""
    records: dict[UUID, AccessControlEntryRecord] = {}
    answers = []
    for acl in request.acls:
        try:
            check_acl(acl)
        except KafkaError as error:
            answers.append(AclAnswer(error.code, error.message))
            continue
        answers.append(AclAnswer())
        acl_id = id_of(acl)
        if acl_id not in image.acls:
            records[acl_id] = AccessControlEntryRecord(acl_id, *astuple(acl))
    _check_size(len(records), defaults)
    return decided(records.values(), CreateAclsReply(tuple(answers)))


def delete_acls(image: Image, request: DeleteAclsRequest, defaults: Defaults) -> Decision[DeleteAclsReply]:
    """Each filter is answered with all ACLs that it finds; one that several filters find is deleted once."""
    scans = sum(wanted.exact is None for wanted in request.filters)
    if scans * len(image.acls) > COMPARED_MAX:
        raise PolicyViolationError(
            f"{scans} filters that may find several of {len(image.acls)} ACLs are too many at once: ask in parts"
        )
    gone: dict[UUID, None] = {}
    answers = []
    for wanted in request.filters:
        try:
            check_filter(wanted)
        except KafkaError as error:
            answers.append(AclDeletion(error=error.code, message=error.message))
            continue
        ids = _found(image, wanted)
        gone.update(dict.fromkeys(ids))
        answers.append(AclDeletion(tuple(image.acls[acl_id] for acl_id in ids)))
    _check_size(len(gone), defaults)
    return decided(map(RemoveAccessControlEntryRecord, gone), DeleteAclsReply(tuple(answers)))


def _found(image: Image, wanted: AclFilter) -> list[UUID]:
    exact = wanted.exact
    if exact is not None:
        return [acl_id] if (acl_id := id_of(exact)) in image.acls else []
    return sorted(acl_id for acl_id, acl in image.acls.items() if wanted.matches(acl))


def _check_size(records: int, defaults: Defaults) -> None:
    if records > defaults.records_per_request_max:
        raise PolicyViolationError(
            f"{records} ACLs would change at once, {defaults.records_per_request_max} may: ask in parts"
        )
