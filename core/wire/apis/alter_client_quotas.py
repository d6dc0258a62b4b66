"""AlterClientQuotas (49): set or remove quotas of users, client ids and addresses."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Float64, Int16, Int32, String, Struct, field


class EntityData(Struct):
    entity_type: str = field(String)
    entity_name: str | None = field(String, nullable="0+", default=None)


class OpData(Struct):
    key: str = field(String)
    value: float = field(Float64)
    remove: bool = field(Bool)


class EntryData(Struct):
    entity: Sequence[EntityData] = field(Array(EntityData))
    ops: Sequence[OpData] = field(Array(OpData))


class AlterClientQuotasRequest(Struct):
    entries: Sequence[EntryData] = field(Array(EntryData))
    validate_only: bool = field(Bool)


class EntryResult(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    entity: Sequence[EntityData] = field(Array(EntityData))


class AlterClientQuotasResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    entries: Sequence[EntryResult] = field(Array(EntryResult))


ALTER_CLIENT_QUOTAS = Api(
    49, "AlterClientQuotas", AlterClientQuotasRequest, AlterClientQuotasResponse,
    versions="0-1", flexible="1+",
)
