"""Instructions of one Produce request on its way through a broker, sockets left out, counted by callgrind.

Unlike time they are the same on a busy machine, so two checkouts can be compared to a fraction of a percent. What a
start costs is left out: the figure is the difference between many requests and few.

``python -m tests.bench.bench_instructions plain 100 FOLDER`` sends so many requests, for a profile by callgrind itself.
"""

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import uvloop

from rookery.core.disk import FileDisk
from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.records import Record, build_batch
from tests.bench.bench_request_path import Bench, frame
from tests.unit.broker.one_broker import OneBroker
from tests.unit.broker.server.fakes import FakeScheduler
from tests.unit.broker.talk import produce_request

ROOT = Path(__file__).parents[2]
FEW, MANY = 100, 1100
KINDS = ("plain", "idempotent")
NOW_MS = 1_790_000_000_000
TOPIC = "one"


def request(kind: str, number: int) -> bytes:
    record = Record(0, NOW_MS, b"key", b"x" * 100)
    if kind == "plain":
        batch = build_batch([record])
    else:
        batch = build_batch([record], producer_id=5, producer_epoch=0, base_sequence=number)
    return frame(PRODUCE, 9, produce_request(TOPIC, bytes(batch)))


async def send(folder: str, kind: str, count: int) -> None:
    """Requests are made for the larger count in any case: only sending them differs."""
    broker = OneBroker(disk=FileDisk(), folder=folder, scheduler=(loop := FakeScheduler()))
    broker.register(9092)
    await broker.cluster.ask(CreateTopicsRequest((NewTopic(TOPIC, 1, 1),)))
    bench = Bench(broker, loop, clock=lambda: 0.0)  # what depends on the time would differ from run to run
    requests = [request(kind, number) for number in range(MANY)]
    gc.collect()
    gc.disable()
    for each in requests[:count]:
        bench.feed(each)
    if broker.partition(TOPIC).log.end_offset != count:
        raise RuntimeError("not every record was stored")
    os._exit(0)  # an orderly end costs the more, the more was sent


def instructions(kind: str, count: int) -> int:
    """Of a whole process that sends so many requests."""
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    with tempfile.TemporaryDirectory(prefix="rookery-bench-") as folder:
        done = subprocess.run(
            [*words, "-m", "tests.bench.bench_instructions", kind, str(count), folder],
            cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"valgrind failed:\n{done.stderr[-2000:]}")
    return int(found[1])


def main() -> None:
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: nothing is measured")
        return
    for kind in KINDS:
        each = (instructions(kind, MANY) - instructions(kind, FEW)) / (MANY - FEW)
        print(f"Produce, 1 record, {kind:12} {each:>10,.0f} instructions", flush=True)


if __name__ == "__main__":
    uvloop.run(send(sys.argv[3], sys.argv[1], int(sys.argv[2])))
