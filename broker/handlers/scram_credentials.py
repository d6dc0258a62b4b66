"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51): users that are kept in the metadata log.

A request to alter brings salted passwords, which are as good as passwords: the keys are derived here, and only they go
on to the controller.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from rookery.broker.handlers.authorize import ALTER, DESCRIBE, cluster_denied
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import (
    ErrorCode,
    KafkaError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import (
    AlterUserScramCredentialsReply,
    ScramAnswer,
    ScramDeletion,
    ScramUpsertion,
)
from rookery.core.metadata.requests import AlterUserScramCredentialsRequest as AskController
from rookery.core.security.credentials import DECOY_KEY
from rookery.core.security.scram import ScramCredential, ScramError, ScramMechanism
from rookery.core.wire.apis.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from rookery.core.wire.apis.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from rookery.core.wire.served import Served

VISIBLE_WITHIN_S = 5.0
"""What was committed is answered as done even if this broker is slow to learn of it."""
_log = get_logger("broker.security")


class DescribeUserScramCredentialsHandler:
    served = Served(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster

    def handle(
        self, request: DescribeUserScramCredentialsRequest, call: Call
    ) -> DescribeUserScramCredentialsResponse:
        denied = cluster_denied(call, DESCRIBE)
        if denied is not None:
            call.error(denied.code)
            return DescribeUserScramCredentialsResponse(
                error_code=denied.code, error_message=denied.message, results=()
            )
        held = _by_user(self._cluster.image)
        asked = Counter(user.name for user in request.users or ()) or Counter(held.keys())
        return DescribeUserScramCredentialsResponse(
            results=[_described(name, times, held.get(name, ()), call) for name, times in sorted(asked.items())]
        )


def _by_user(image: Image) -> dict[str, list[CredentialInfo]]:
    held: dict[str, list[CredentialInfo]] = defaultdict(list)
    for key in sorted(image.credentials):
        if key != DECOY_KEY:
            name, mechanism = key
            held[name].append(CredentialInfo(mechanism=mechanism, iterations=image.credentials[key].iterations))
    return dict(held)


def _described(
    name: str, times: int, infos: Sequence[CredentialInfo], call: Call
) -> DescribeUserScramCredentialsResult:
    code, text = ErrorCode.NONE, None
    if times > 1:
        code, text, infos = ErrorCode.DUPLICATE_RESOURCE, f"user {name!r} is named twice", ()
    elif not infos:
        code, text = ErrorCode.RESOURCE_NOT_FOUND, f"user {name!r} has no SCRAM credentials"
    if code:
        call.error(code)
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=text, credential_infos=infos
    )


class AlterUserScramCredentialsHandler:
    served = Served(ALTER_USER_SCRAM_CREDENTIALS, 0, 0)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort) -> None:
        self._cluster = cluster
        self._controller = controller

    async def handle(
        self, request: AlterUserScramCredentialsRequest, call: Call
    ) -> AlterUserScramCredentialsResponse:
        denied = cluster_denied(call, ALTER)
        if denied is not None:
            names = dict.fromkeys([*(each.name for each in request.deletions), *(e.name for e in request.upsertions)])
            answers = {name: ScramAnswer(name, denied.code, denied.message) for name in names}
        else:
            answers = {answer.name: answer for answer in await self._answers(request)}
        for answer in answers.values():
            if answer.error:
                call.error(ErrorCode(answer.error))
            else:
                _log.info("scram.changed", user=answer.name, by=str(call.client.principal))
        return AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user=each.name, error_code=each.error, error_message=each.message)
                for each in answers.values()
            ]
        )

    async def _answers(self, request: AlterUserScramCredentialsRequest) -> list[ScramAnswer]:
        """First the users whose credentials are of no use: nothing of theirs is passed on."""
        refused: dict[str, ScramAnswer] = {}
        upsertions = []
        for wanted in request.upsertions:
            try:
                upsertions.append(_upsertion(wanted))
            except KafkaError as error:
                refused.setdefault(wanted.name, ScramAnswer(wanted.name, error.code, error.message))
        asked = AskController(
            tuple(ScramDeletion(each.name, each.mechanism) for each in request.deletions if each.name not in refused),
            tuple(each for each in upsertions if each.name not in refused),
        )
        if not asked.deletions and not asked.upsertions:
            return list(refused.values())
        try:
            reply = await self._controller.ask(asked)
        except KafkaError as error:
            names = dict.fromkeys(
                [*(each.name for each in asked.deletions), *(each.name for each in asked.upsertions)]
            )
            reply = AlterUserScramCredentialsReply(
                tuple(ScramAnswer(name, error.code, error.message) for name in names)
            )
        made = {answer.name for answer in reply.users if not answer.error}
        await self._cluster.until(lambda image: _holds(image, asked, made), VISIBLE_WITHIN_S)
        return [*refused.values(), *reply.users]


def _upsertion(wanted: ScramCredentialUpsertion) -> ScramUpsertion:
    if wanted.mechanism not in list(ScramMechanism):
        raise UnsupportedSaslMechanismError(f"SCRAM mechanism {wanted.mechanism} is not known")
    mechanism = ScramMechanism(wanted.mechanism)
    salt = bytes(wanted.salt)
    try:
        made = ScramCredential.of_salted(mechanism, bytes(wanted.salted_password), salt, wanted.iterations)
    except ScramError as error:
        raise UnacceptableCredentialError(str(error)) from None
    return ScramUpsertion(
        wanted.name, wanted.mechanism, wanted.iterations, salt, made.stored_key, made.server_key
    )


def _holds(image: Image, asked: AskController, made: set[str]) -> bool:
    gone = all(
        (each.name, each.mechanism) not in image.credentials for each in asked.deletions if each.name in made
    )
    held = (image.credentials.get((each.name, each.mechanism)) for each in asked.upsertions if each.name in made)
    keys = (each.stored_key for each in asked.upsertions if each.name in made)
    return gone and all(one is not None and one.stored_key == key for one, key in zip(held, keys, strict=True))
