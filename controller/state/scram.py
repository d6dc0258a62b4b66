"""SCRAM credentials of users: set and removed. Checked before they are written, so that every broker can rely on what
it reads.

With the first of them a record without a user is written, whose random keys are the cluster's secret for decoys: all
brokers answer for a user who does not exist with the same salt, which cannot be distinguished from a real one.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from rookery.controller.state.decision import Decision, decided
from rookery.core.errors import (
    DuplicateResourceError,
    KafkaError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from rookery.core.metadata.image import Image
from rookery.core.metadata.records import (
    Record,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from rookery.core.metadata.requests import (
    AlterUserScramCredentialsReply,
    AlterUserScramCredentialsRequest,
    ScramAnswer,
    ScramDeletion,
    ScramUpsertion,
)
from rookery.core.security.credentials import DECOY_KEY
from rookery.core.security.sasl import user_problem
from rookery.core.security.scram import ITERATIONS_MIN, ScramCredential, ScramError, ScramMechanism


def alter_user_scram_credentials(
    image: Image, request: AlterUserScramCredentialsRequest, new_id: Callable[[], UUID]
) -> Decision[AlterUserScramCredentialsReply]:
    """Each user gets all of its changes or none; one answer for each user. A mechanism of a user that is named twice is
    refused; two mechanisms of one user are not, though Kafka refuses them: its own tools send them."""
    changes: dict[str, list[Record]] = {}
    failed: dict[str, KafkaError] = {}
    seen: set[tuple[str, int]] = set()
    wanted: list[ScramDeletion | ScramUpsertion] = [*request.deletions, *request.upsertions]
    for change in wanted:
        key = change.name, change.mechanism
        made = changes.setdefault(change.name, [])
        try:
            if key in seen:
                raise DuplicateResourceError(f"a mechanism of user {change.name!r} is named twice")
            seen.add(key)
            _check(change.name, change.mechanism)
            if isinstance(change, ScramUpsertion):
                made.append(_upsertion(change))
            elif key in image.credentials:
                made.append(RemoveUserScramCredentialRecord(*key))
            else:
                raise ResourceNotFoundError(f"user {change.name!r} has no such credential")
        except KafkaError as error:
            failed.setdefault(change.name, error)
    records = [record for name, made in changes.items() if name not in failed for record in made]
    answers = (
        ScramAnswer(name, failed[name].code, failed[name].message) if name in failed else ScramAnswer(name)
        for name in changes
    )
    return decided(with_decoys(image, records, new_id), AlterUserScramCredentialsReply(tuple(answers)))


def with_decoys(image: Image, records: Iterable[Record], new_id: Callable[[], UUID]) -> list[Record]:
    """`records`, and before the first credential of a cluster the secret for decoys."""
    made = list(records)
    if DECOY_KEY in image.credentials or not any(isinstance(each, UserScramCredentialRecord) for each in made):
        return made
    secret = b"".join(new_id().bytes for _ in range(8))
    name, mechanism = DECOY_KEY
    return [UserScramCredentialRecord(name, mechanism, secret[:24], secret[:64], secret[64:], ITERATIONS_MIN), *made]


def _check(name: str, mechanism: int) -> None:
    if problem := user_problem(name):
        raise UnacceptableCredentialError(problem)
    if mechanism not in list(ScramMechanism):
        raise UnsupportedSaslMechanismError(f"SCRAM mechanism {mechanism} is not known")


def _upsertion(change: ScramUpsertion) -> UserScramCredentialRecord:
    mechanism = ScramMechanism(change.mechanism)
    try:
        ScramCredential(mechanism, change.iterations, change.salt, change.stored_key, change.server_key)
    except ScramError as error:
        raise UnacceptableCredentialError(str(error)) from None
    return UserScramCredentialRecord(
        change.name, change.mechanism, change.salt, change.stored_key, change.server_key, change.iterations
    )
