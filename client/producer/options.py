"""The producer's options, and what they mean together."""

from typing import Any

from rookery.client.errors import ConfigurationError
from rookery.client.options import (
    INT_MAX,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MAX_MS,
    RETRY_BACKOFF_MS,
    Boolean,
    Int,
    Object,
    Option,
    Settings,
    String,
    contradiction,
    int32,
    table_with_common,
)
from rookery.client.producer.accumulator import AccumulatorSettings
from rookery.client.producer.partition_queue import IN_FLIGHT_MAX
from rookery.client.serializers import SERIALIZERS, is_serializer
from rookery.core.net.backoff import BackoffSettings
from rookery.core.wire.compression import Codec

CLIENT = "Producer"
PARTITIONERS = ("default", "murmur2", "round_robin", "random", "least_bytes")

ACKS = Option(
    "acks",
    String(("all", "-1", "0", "1")),
    "all",
    "Which replicas must have a batch before it counts as sent.",
)
BATCH_SIZE = Option(
    "batch.size", int32(0), 131_072, "Largest size of a batch; a larger record has one for itself."
)
LINGER_MS = Option("linger.ms", Int(0), 5, "How long a batch waits for more records.")
BUFFER_MEMORY = Option(
    "buffer.memory", Int(0), 32 << 20, "Room for records that are not acknowledged; `send` waits for it."
)
MAX_BLOCK_MS = Option("max.block.ms", Int(0), 60_000, "Longest wait of `send` for room and for the topic.")
MAX_REQUEST_SIZE = Option("max.request.size", int32(1), 1 << 20, "Largest size of a request and of a record.")
COMPRESSION_TYPE = Option(
    "compression.type",
    String(("none", "gzip", "snappy", "lz4", "zstd")),
    "none",
    "How batches are compressed.",
)
COMPRESSION_GZIP_LEVEL = Option("compression.gzip.level", int32(-1, 9), -1, "Level of gzip.")
COMPRESSION_LZ4_LEVEL = Option("compression.lz4.level", int32(1, 17), 9, "Level of lz4.")
COMPRESSION_ZSTD_LEVEL = Option("compression.zstd.level", int32(-131072, 22), 3, "Level of zstd.")
RETRIES = Option("retries", int32(0), INT_MAX, "Repetitions of a batch, within delivery.timeout.ms.")
DELIVERY_TIMEOUT_MS = Option(
    "delivery.timeout.ms", int32(1), 120_000, "Longest time from `send` to the outcome."
)
MAX_IN_FLIGHT = Option(
    "max.in.flight.requests.per.connection", int32(1), 5, "Requests to one node that wait for an answer."
)
ENABLE_IDEMPOTENCE = Option(
    "enable.idempotence",
    Boolean(),
    True,
    "Whether each record is stored once and in order, however often it is sent.",
)
TRANSACTIONAL_ID = Option("transactional.id", String(), "", "The name under which transactions are made.")
TRANSACTION_TIMEOUT_MS = Option(
    "transaction.timeout.ms", int32(1), 60_000, "Age at which the cluster aborts a transaction."
)
PARTITIONER: Option[Any] = Option(
    "partitioner",
    Object(
        f"one of {', '.join(PARTITIONERS)} or a function",
        lambda value: value in PARTITIONERS or callable(value),
    ),
    "default",
    "Which partition a record goes to.",
)
PARTITIONER_IGNORE_KEYS = Option(
    "partitioner.ignore.keys", Boolean(), False, "Whether keys have no part in that."
)
PARTITIONER_ADAPTIVE = Option(
    "partitioner.adaptive.partitioning.enable",
    Boolean(),
    True,
    "Whether partitions with a short queue get more.",
)
AUTO_CREATE_TOPICS = Option(
    "auto.create.topics", Boolean(), True, "Whether brokers may create a topic that is missing."
)
KEY_SERIALIZER: Option[Any] = Option(
    "key.serializer",
    Object(f"a function or one of {', '.join(SERIALIZERS)}", is_serializer),
    "bytes",
    "Makes bytes of keys.",
)
VALUE_SERIALIZER: Option[Any] = Option(
    "value.serializer",
    Object(f"a function or one of {', '.join(SERIALIZERS)}", is_serializer),
    "bytes",
    "Makes bytes of values.",
)

TABLE = table_with_common(vars())


def acks_of(settings: Settings) -> int:
    return -1 if settings[ACKS] == "all" else int(settings[ACKS])


def idempotent(settings: Settings) -> bool:
    """On unless it is switched off, or another option that was set excludes it."""
    if settings.is_set(ENABLE_IDEMPOTENCE) or settings.is_set(TRANSACTIONAL_ID):
        return settings[ENABLE_IDEMPOTENCE]
    return acks_of(settings) == -1 and settings[RETRIES] > 0 and settings[MAX_IN_FLIGHT] <= IN_FLIGHT_MAX


def check(settings: Settings) -> None:
    """Raise ConfigurationError for options that contradict each other."""
    if settings.is_set(TRANSACTIONAL_ID) and not settings[TRANSACTIONAL_ID]:
        raise ConfigurationError(f"{CLIENT}: transactional.id must not be empty", TRANSACTIONAL_ID.name)
    if settings[TRANSACTIONAL_ID] and not settings[ENABLE_IDEMPOTENCE]:
        raise contradiction(
            CLIENT, "enable.idempotence=false", "transactional.id", "transactions need idempotence"
        )
    if idempotent(settings):
        why = "idempotence needs all replicas, retries, and at most 5 requests in flight"
        for option, wrong in (
            (ACKS, acks_of(settings) != -1),
            (RETRIES, settings[RETRIES] == 0),
            (MAX_IN_FLIGHT, settings[MAX_IN_FLIGHT] > IN_FLIGHT_MAX),
        ):
            if wrong:
                cause = "transactional.id" if settings[TRANSACTIONAL_ID] else "enable.idempotence=true"
                raise contradiction(CLIENT, f"{option.name}={settings[option]}", cause, why)
    least = settings[LINGER_MS] + settings[REQUEST_TIMEOUT_MS]
    if settings[DELIVERY_TIMEOUT_MS] < least and settings.is_set(DELIVERY_TIMEOUT_MS):
        raise contradiction(
            CLIENT,
            f"delivery.timeout.ms={settings[DELIVERY_TIMEOUT_MS]}",
            f"linger.ms + request.timeout.ms = {least}",
            "a record would be given up before its first request",
        )
    if settings[RETRY_BACKOFF_MS] > settings[RETRY_BACKOFF_MAX_MS] and settings.is_set(RETRY_BACKOFF_MAX_MS):
        raise contradiction(
            CLIENT,
            f"retry.backoff.ms={settings[RETRY_BACKOFF_MS]}",
            f"retry.backoff.max.ms={settings[RETRY_BACKOFF_MAX_MS]}",
            "the first pause is the shortest",
        )


def accumulator_settings(settings: Settings) -> AccumulatorSettings:
    codec = Codec[settings[COMPRESSION_TYPE].upper()]
    levels = {
        Codec.GZIP: COMPRESSION_GZIP_LEVEL,
        Codec.LZ4: COMPRESSION_LZ4_LEVEL,
        Codec.ZSTD: COMPRESSION_ZSTD_LEVEL,
    }
    pause_s = settings[RETRY_BACKOFF_MS] / 1000
    least_s = (settings[LINGER_MS] + settings[REQUEST_TIMEOUT_MS]) / 1000
    return AccumulatorSettings(
        batch_size=settings[BATCH_SIZE],
        linger_s=settings[LINGER_MS] / 1000,
        buffer_memory=settings[BUFFER_MEMORY],
        request_bytes_max=settings[MAX_REQUEST_SIZE],
        delivery_timeout_s=max(settings[DELIVERY_TIMEOUT_MS] / 1000, least_s),
        in_flight_max=settings[MAX_IN_FLIGHT],
        retries=settings[RETRIES],
        backoff=BackoffSettings(pause_s, max(pause_s, settings[RETRY_BACKOFF_MAX_MS] / 1000)),
        idempotent=idempotent(settings),
        transactional=bool(settings[TRANSACTIONAL_ID]),
        codec=codec,
        level=settings[levels[codec]] if codec in levels else None,
    )
