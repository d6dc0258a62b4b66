"""Quotas as the dashboards of Kafka's exporters know them: one row for each client, or for all that share a
quota."""

from collections.abc import Callable, Iterable, Iterator

from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.quotas.precedence import Who
from rookery.core.metadata.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from rookery.core.metrics import Metrics, Sample

BYTE_RATE = "kafka_server_quota_byte_rate"
REQUEST_TIME = "kafka_server_quota_request_time"
THROTTLE_TIME = "kafka_server_quota_throttle_time"
TOKENS = "kafka_server_quota_tokens"
LABELS = ("resource", "user", "clientId")
_BYTES = {"Produce": PRODUCER_BYTE_RATE, "Fetch": CONSUMER_BYTE_RATE}
_TIME = {"Request": REQUEST_PERCENTAGE}


def publish_quotas(metrics: Metrics, quotas: ClientQuotas) -> None:
    def read(name: str, text: str, keys: dict[str, str], of: Callable[[str], Iterable[tuple[Who, float]]]) -> None:
        def samples() -> Iterator[Sample]:
            for resource, key in keys.items():
                for who, value in of(key):
                    yield (resource, *who), value

        metrics.read(name, text, samples, labels=LABELS)

    read(BYTE_RATE, "Bytes a second that limited clients produce and fetch.", _BYTES, quotas.rates)
    read(REQUEST_TIME, "Percent of the loop's time that limited clients use.", _TIME, quotas.rates)
    text = "Average throttle time of throttled requests, in milliseconds."
    read(THROTTLE_TIME, text, _BYTES | _TIME, quotas.delays_ms)
    text = "Partitions that limited clients may still make or delete at once."
    read(TOKENS, text, {"ControllerMutation": CONTROLLER_MUTATION_RATE}, lambda key: quotas.tokens())
