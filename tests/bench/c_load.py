"""librdkafka as load without Python in the way: `load.c`, which loads the library of the confluent-kafka wheel.

Python calls `produce` once a record, which takes longer than any broker needs for it: through Python two brokers look
alike.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.building import FOLDER, one_builder

SOURCE = Path(__file__).with_name("load.c")
TIMEOUT_S = 180
PRODUCE = {"linger.ms": 5, "batch.size": 1_000_000}
UNBATCHED = {"linger.ms": 0, "batch.num.messages": 1, "max.in.flight.requests.per.connection": 5}
CONSUME = {
    "group.id": "bench",
    "enable.auto.commit": "false",
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 5,
    "queued.max.messages.kbytes": 500_000,
}
"""Its queue limits raised: the defaults measure its own pauses."""
LATENCY = {"p.linger.ms": 0, "c.group.id": "bench", "c.enable.auto.commit": "false", "c.fetch.wait.max.ms": 500}


@dataclass(frozen=True, slots=True)
class Load:
    """Where to send what."""

    bootstrap: str
    topic: str
    size: int
    count: int
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class Found:
    """What the tool measured, from the moment at which it was connected."""

    seconds: float
    records: int
    client_cpu_s: float
    latencies_us: tuple[int, ...] = ()
    """Sorted."""

    def percentile_us(self, percent: float) -> int:
        return self.latencies_us[min(len(self.latencies_us) - 1, int(len(self.latencies_us) * percent / 100))]


def produce(load: Load, **options: object) -> Found:
    return _run("produce", load, PRODUCE | options)


def produce_unbatched(load: Load, **options: object) -> Found:
    """One record a request, five requests in flight."""
    return _run("produce", load, UNBATCHED | options)


def consume(load: Load, **options: object) -> Found:
    return _run("consume", load, CONSUME | options)


def latency(load: Load, rate: int, **options: object) -> Found:
    """From produce() to the consumer, at `rate` records a second."""
    return _run("latency", load, LATENCY | {"rate": rate} | options)


def _run(mode: str, load: Load, options: dict[str, object]) -> Found:
    tool, library = built()
    words = [tool, mode, library, load.topic, str(load.partitions), str(load.size), str(load.count)]
    given = {"bootstrap.servers": load.bootstrap, "log_level": 2, **options}
    for name, value in given.items():
        words.append(f"{name}={value}")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    seconds, records, cpu, *latencies = done.stdout.split()
    return Found(float(seconds), int(records), float(cpu), tuple(map(int, latencies)))


@cache
def built() -> tuple[str, str]:
    """The tool and the library it loads."""
    gcc = shutil.which("gcc")
    if gcc is None:
        raise RuntimeError("gcc is missing: it builds the load tool (Debian: apt install gcc libc6-dev)")
    tool = FOLDER / "bench" / f"load-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}"
    with one_builder():
        if not tool.exists():
            tool.parent.mkdir(parents=True, exist_ok=True)
            scratch = tool.with_suffix(f".{os.getpid()}")
            words = [gcc, "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(scratch), str(SOURCE), "-ldl", "-lpthread"]
            subprocess.run(words, check=True, timeout=60)
            scratch.rename(tool)
    return str(tool), str(_library())


def _library() -> Path:
    found = importlib.util.find_spec("confluent_kafka")
    if found is None or found.origin is None:
        raise RuntimeError("confluent-kafka is not installed: make setup")
    folder = Path(found.origin).parent.parent / "confluent_kafka.libs"
    return next(folder.glob("librdkafka*.so*"))
