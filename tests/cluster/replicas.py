"""What must hold when the faults are over: a clean history, and replicas that are equal byte for byte."""

from functools import partial
from pathlib import Path

from tests.cluster.load import Load
from tests.cluster.local import LocalCluster, wait_for


def segments(cluster: LocalCluster, node_id: int, topic: str, partition: int) -> bytes:
    folder = Path(cluster.node(node_id).data) / f"{topic}-{partition}"
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def check_history_and_replicas(
    cluster: LocalCluster, load: Load, topic: str, partitions: int, *, deleting: bool = False
) -> None:
    """Where segments are `deleting`, each replica does so in its own time: what they still have must be equal."""
    assert load.errors == [], f"{len(load.errors)} sends failed: {load.errors[:5]}"
    anomalies = load.history.anomalies()
    assert anomalies == [], f"{len(anomalies)} anomalies: {anomalies[:5]}"
    cluster.wait_in_sync(topic, partitions)

    def equal(partition: int) -> bool:
        try:
            found = [segments(cluster, node_id, topic, partition) for node_id in cluster.ids]
        except FileNotFoundError:  # deleted between the look and the reading
            return False
        sizes = set(map(len, found))
        tails = {each[len(each) - min(sizes) :] for each in found}
        return len(tails) == 1 and (deleting or len(sizes) == 1)

    for partition in range(partitions):
        wait_for(partial(equal, partition), f"the replicas of partition {partition} to be equal")
