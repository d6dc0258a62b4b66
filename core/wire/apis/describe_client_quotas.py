"""DescribeClientQuotas (48): quotas whose entity matches the components asked for."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Float64, Int8, Int16, Int32, String, Struct, field


class ComponentData(Struct):
    entity_type: str = field(String)
    match_type: int = field(Int8)
    match: str | None = field(String, nullable="0+", default=None)


class DescribeClientQuotasRequest(Struct):
    components: Sequence[ComponentData] = field(Array(ComponentData))
    strict: bool = field(Bool)


class EntityData(Struct):
    entity_type: str = field(String)
    entity_name: str | None = field(String, nullable="0+", default=None)


class ValueData(Struct):
    key: str = field(String)
    value: float = field(Float64)


class EntryData(Struct):
    entity: Sequence[EntityData] = field(Array(EntityData))
    values: Sequence[ValueData] = field(Array(ValueData))


class DescribeClientQuotasResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    entries: Sequence[EntryData] | None = field(Array(EntryData), nullable="0+", default=None)


DESCRIBE_CLIENT_QUOTAS = Api(
    48, "DescribeClientQuotas", DescribeClientQuotasRequest, DescribeClientQuotasResponse,
    versions="0-1", flexible="1+",
)
