"""What one log needs to know of its topic's configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic options that shape the files; the names are the keys with `.` as `_`."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
