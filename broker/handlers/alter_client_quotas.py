"""AlterClientQuotas (49): set or remove quotas; the controller checks and decides."""

from rookery.broker.handlers.authorize import ALTER_CONFIGS, check_cluster
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.metadata.client_quotas import NO_QUOTAS, entity_of
from rookery.core.metadata.image import Image, QuotaEntity
from rookery.core.metadata.requests import AlterClientQuotasReply, QuotaAlteration, QuotaAnswer, QuotaChange
from rookery.core.metadata.requests import AlterClientQuotasRequest as AskController
from rookery.core.wire.apis.alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryResult,
)
from rookery.core.wire.served import Served

VISIBLE_WITHIN_S = 5.0
"""What was committed is answered as done even if this broker receives it late."""


class AlterClientQuotasHandler:
    served = Served(ALTER_CLIENT_QUOTAS, 0, 1)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort) -> None:
        self._cluster = cluster
        self._controller = controller

    async def handle(self, request: AlterClientQuotasRequest, call: Call) -> AlterClientQuotasResponse:
        asked = AskController(tuple(map(_alteration, request.entries)), request.validate_only)
        try:
            check_cluster(call, ALTER_CONFIGS)
            reply = await self._controller.ask(asked)
        except KafkaError as error:
            failed = (QuotaAnswer(one.entity, error.code, error.message) for one in asked.alterations)
            reply = AlterClientQuotasReply(tuple(failed))
        if not request.validate_only:
            made = [
                one
                for one, answer in zip(asked.alterations, reply.entries, strict=True)
                if not answer.error
            ]
            await self._cluster.until(lambda image: all(_holds(image, one) for one in made), VISIBLE_WITHIN_S)
        return AlterClientQuotasResponse(entries=[_result(answer, call) for answer in reply.entries])


def _alteration(entry: EntryData) -> QuotaAlteration:
    entity = tuple(QuotaEntity(part.entity_type, part.entity_name) for part in entry.entity)
    changes = (QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops)
    return QuotaAlteration(entity, tuple(changes))


def _holds(image: Image, alteration: QuotaAlteration) -> bool:
    quotas = image.quotas.get(entity_of(alteration.entity), NO_QUOTAS)
    return all(quotas.get(change.key) == change.value for change in alteration.changes)


def _result(answer: QuotaAnswer, call: Call) -> EntryResult:
    if answer.error:
        call.error(ErrorCode(answer.error))
    return EntryResult(
        error_code=answer.error,
        error_message=answer.message,
        entity=[EntityData(entity_type=part.type, entity_name=part.name) for part in answer.entity],
    )
