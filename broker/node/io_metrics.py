"""What this process reads from and writes to devices, as the kernel counts it, under Kafka's names."""

from collections.abc import Iterator
from functools import partial

from rookery.core.metrics import Metrics, Sample

COUNTERS = "/proc/self/io"


def publish_io(metrics: Metrics, path: str = COUNTERS) -> None:
    for field, text in (("read_bytes", "Bytes read from devices."), ("write_bytes", "Bytes written to devices.")):
        metrics.read(f"kafka_server_kafkaserver_linux_disk_{field}", text, partial(_samples, path, field))


def _samples(path: str, field: str) -> Iterator[Sample]:
    """Nothing where the kernel does not tell."""
    try:
        with open(path) as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, value = line.partition(": ")
        if name == field:
            yield (), float(value)
