"""More than one core: several nodes on one host; and what several event loops in one process would gain.

Nodes: 1, 2 and 4 nodes, a topic with one partition on each, and producers that send one record a request, which costs a
broker most. Loops: the spike (`spike`) with one loop, with two loops in threads of one process, and as two processes.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from tests.bench import c_load, loaders
from tests.bench.c_load import Load
from tests.bench.spike import spike
from tests.cluster.local import local_cluster

RECORDS = 30_000
LOADERS = 2


def measure(title: str, targets: Sequence[tuple[str, str, int]], pids: Sequence[int]) -> None:
    """`targets`: address, topic and number of partitions for each loader; they run at the same time."""
    before = sum(map(loaders.cpu_s, pids))

    def load(target: tuple[str, str, int]) -> float:
        bootstrap, topic, partitions = target
        done = c_load.produce_unbatched(Load(bootstrap, topic, 100, RECORDS, partitions), acks=1)
        return done.records / done.seconds

    with ThreadPoolExecutor(len(targets)) as pool:
        rates = list(pool.map(load, targets))
    used = (sum(map(loaders.cpu_s, pids)) - before) / (RECORDS * len(targets)) * 1e6
    print(f"{title:<44} {sum(rates):>9,.0f} rec/s, {used:.1f} us of the brokers' CPU a record", flush=True)


def main() -> None:
    for nodes in (1, 2, 4):
        with local_cluster(nodes) as cluster:
            cluster.create_topic("load", nodes, 1)
            pids = [node.pid for node in cluster.file.nodes]
            measure(f"{nodes} node(s)", [(cluster.bootstrap, "load", nodes)] * LOADERS, pids)
    for title, loops in (("spike, one loop", 1), ("spike, two loops in threads", 2)):
        with spike(loops) as (address, pid):
            measure(title, [(address, f"t{number}", 1) for number in range(LOADERS)], [pid])
    with ExitStack() as stack:
        found = [stack.enter_context(spike()) for _ in range(LOADERS)]
        measure("spike, two processes", [(address, "t", 1) for address, _ in found], [pid for _, pid in found])
