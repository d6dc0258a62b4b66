"""What a leader asks of the batches of a topic beyond what its log asks, worked out once per topic."""

from dataclasses import dataclass, field

from rookery.core.config import topic
from rookery.core.config.options import Settings
from rookery.core.wire.compression import Codec

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_LEVELS = {
    Codec.GZIP: topic.COMPRESSION_GZIP_LEVEL,
    Codec.LZ4: topic.COMPRESSION_LZ4_LEVEL,
    Codec.ZSTD: topic.COMPRESSION_ZSTD_LEVEL,
}


@dataclass(frozen=True, slots=True)
class TopicSettings:
    insync_replicas_min: int = 1
    codec: int | None = None
    """The codec batches are stored with; None keeps the producer's."""
    codec_level: int | None = None
    keys_required: bool = False
    check_records: bool = False
    """Look at each record even where nothing else asks for it."""

    leader_throttled: frozenset[str] = frozenset()
    follower_throttled: frozenset[str] = frozenset()
    """Replicas (partition:broker, or *) that a move may slow down, on each side."""

    opens_batches: bool = field(init=False)
    """Whether any batch may have to be looked into."""

    def __post_init__(self) -> None:
        opens = self.keys_required or self.check_records or self.codec is not None
        object.__setattr__(self, "opens_batches", opens)

    @classmethod
    def of(cls, settings: Settings, *, check_records: bool = False) -> "TopicSettings":
        codec = _CODECS.get(settings[topic.COMPRESSION_TYPE])
        level = _LEVELS.get(codec) if codec is not None else None
        return cls(
            insync_replicas_min=settings[topic.MIN_INSYNC_REPLICAS],
            codec=codec,
            codec_level=None if level is None else settings[level],
            keys_required="compact" in settings[topic.CLEANUP_POLICY],
            check_records=check_records,
            leader_throttled=frozenset(settings[topic.LEADER_REPLICATION_THROTTLED_REPLICAS]),
            follower_throttled=frozenset(settings[topic.FOLLOWER_REPLICATION_THROTTLED_REPLICAS]),
        )
