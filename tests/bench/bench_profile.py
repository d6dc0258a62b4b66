"""Where the time of unbatched records goes: CPU, wake-ups and system calls of each node a record, and flame graphs.

One node with acks=1, then three nodes with acks=all; one record a request, five in flight, one partition. The first
node listed leads. strace counts system calls and py-spy (PyPI) draws pictures, where they are installed. Both run after
the CPU was measured, since they slow the nodes down. Pictures are written to build/bench/.
"""

import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rookery.client.local.processes import wait_until
from tests.bench import c_load, loaders
from tests.bench.c_load import Found, Load
from tests.building import FOLDER
from tests.cluster.local import LocalCluster, local_cluster

RECORDS = 20_000
RECORDS_TRACED = 5_000
PICTURE_S = 10
SHOWN = 7


def switches(pid: int) -> int:
    """How often the process went to sleep of its own will: each is a wake-up later."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("voluntary_ctxt")).split()[1])


@contextmanager
def traced(pids: Sequence[int]) -> Iterator[list[Counter[str]]]:
    """The system calls of each process by name; they are there when this ends."""
    found: list[Counter[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / str(pid) for pid in pids]
        running = [
            subprocess.Popen(["strace", "-f", "-c", "-o", str(output), "-p", str(pid)], stderr=subprocess.DEVNULL)
            for pid, output in zip(pids, outputs, strict=True)
        ]
        if not wait_until(lambda: all(map(_is_traced, pids)), 20):
            raise RuntimeError("strace does not attach")
        try:
            yield found
        finally:
            for process in running:
                process.send_signal(signal.SIGINT)
                process.wait(20)
        found += map(_calls, outputs)


def _is_traced(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith("TracerPid")).split()[1] != "0"


def _calls(output: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in output.read_text().splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
            found[fields[-1]] = int(fields[3])
    return found


def measure(title: str, cluster: LocalCluster, acks: str) -> None:
    leader = cluster.leader("load")
    order = sorted(cluster.ids, key=lambda node_id: node_id != leader)
    pids = [cluster.node(node_id).pid for node_id in order]

    def load(count: int) -> Found:
        return c_load.produce_unbatched(Load(cluster.bootstrap, "load", 100, count), acks=acks)

    load(RECORDS // 4)
    cpu, slept = [loaders.cpu_s(pid) for pid in pids], [switches(pid) for pid in pids]
    done = load(RECORDS)
    used = [(loaders.cpu_s(pid) - before) / RECORDS * 1e6 for pid, before in zip(pids, cpu, strict=True)]
    woken = [(switches(pid) - before) / RECORDS for pid, before in zip(pids, slept, strict=True)]
    each = " + ".join(f"{value:.0f}" for value in used)
    wakes = " ".join(f"{value:.2f}" for value in woken)
    rate = done.records / done.seconds
    print(f"{title}: {rate:,.0f} rec/s, CPU {each} = {sum(used):.0f} us a record; wake-ups {wakes}", flush=True)
    if shutil.which("strace"):
        with traced(pids) as found:
            load(RECORDS_TRACED)
        for node_id, counted in zip(order, found, strict=True):
            text = ", ".join(f"{name} {count / RECORDS_TRACED:.2f}" for name, count in counted.most_common(SHOWN))
            print(f"  node {node_id}: {counted.total() / RECORDS_TRACED:.1f} system calls a record: {text}", flush=True)
    if shutil.which("py-spy"):
        _draw(title, order, pids, lambda: load(RECORDS))


def _draw(title: str, order: Sequence[int], pids: Sequence[int], load: Callable[[], Found]) -> None:
    folder = FOLDER / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    running = []
    for place, pid in zip(("leader", "follower"), pids, strict=False):
        picture = folder / f"flame-{title.split()[0]}-{place}.svg"
        words = ["py-spy", "record", "-r", "250", "-d", str(PICTURE_S), "-o", str(picture), "-p", str(pid)]
        running.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    while any(process.poll() is None for process in running):
        load()
    print(f"  flame graphs: {folder}/flame-*.svg", flush=True)


def main() -> None:
    for title, nodes, acks in (("1 node, acks=1", 1, "1"), ("3 nodes, acks=all", 3, "all")):
        with local_cluster(nodes) as cluster:
            cluster.create_topic("load", 1, nodes)
            cluster.wait_in_sync("load", 1, nodes)
            measure(title, cluster, acks)
