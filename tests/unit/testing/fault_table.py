"""The table of faults in docs/testing-your-code.md, and what each of them must do while it lasts."""

import re
from collections.abc import Callable
from typing import Any

from rookery.testing import Cluster, Fault
from rookery.testing.chaos import Chaos
from rookery.testing.embedded import EmbeddedNodes
from tests.tidy.source import ROOT
from tests.unit.testing.clients import Sender

PAGE = ROOT / "docs" / "testing-your-code.md"
TOPIC = "t"
"""The table names it, and node 1."""
OPTIONS = {"replica.lag.time.max.ms": 1500, "broker.session.timeout.ms": 1500, "broker.heartbeat.interval.ms": 300}
ROW = re.compile(r"^\| `(\w+)(\(.*?\))` \| [^|]+ \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def read(mode: str) -> dict[str, tuple[str, bool]]:
    """By name of the fault: the call as it stands in the table, and whether a cluster of this mode can do it."""
    column = {"in memory": 2, "data": 3, "processes": 4}[mode]
    rows = [found.groups() for found in ROW.finditer(PAGE.read_text())]
    return {row[0]: (row[0] + row[1], row[column].startswith("yes")) for row in rows}


def inject(cluster: Cluster, call: str) -> Any:
    """The call of the table, as it stands there."""
    return eval(f"cluster.{call}", {"cluster": cluster})


def _is_down(cluster: Cluster) -> None:
    assert not cluster.nodes.is_up(1)


def _leaves_the_isr(cluster: Cluster) -> None:
    cluster.wait_for(lambda: 1 not in cluster.isr(TOPIC), "node 1 to leave the ISR")


def _is_slow(cluster: Cluster) -> None:
    assert isinstance(cluster.nodes, EmbeddedNodes)
    cluster.wait_in_sync(TOPIC)
    Sender(cluster, TOPIC).send(1)
    last = cluster.trace(TOPIC, 0, cluster.high_watermark(TOPIC) - 1)
    assert last.appended_s is not None
    assert last.committed_s is not None
    assert last.committed_s - last.appended_s >= 0.05


def _ends_for_want_of_room(cluster: Cluster) -> None:
    Sender(cluster, TOPIC).send(1)
    cluster.wait_for(lambda: not cluster.nodes.is_up(1), "node 1 to end")


def _is_damaged(cluster: Cluster) -> None:
    """On disk: one bit is not as on another replica."""
    leader = cluster.leader(TOPIC)
    other = next(node_id for node_id in cluster.ids if node_id != leader)
    here, there = (_newest(cluster, node_id) for node_id in (leader, other))
    assert sum(one != another for one, another in zip(here, there, strict=False)) == 1


def _newest(cluster: Cluster, node_id: int) -> bytes:
    return cluster.nodes.contents(node_id, cluster.nodes.replica_files(node_id, f"{TOPIC}-0")[-1])


def _is_an_hour_ahead(cluster: Cluster) -> None:
    assert isinstance(cluster.nodes, EmbeddedNodes)
    ahead, right = (cluster.nodes.nodes[node_id].clock.wall_ms() for node_id in (1, 2))
    assert abs(ahead - right - 3_600_000) < 60_000


def _loses_an_answer(cluster: Cluster) -> None:
    began = cluster.timeline.now_s
    assert Sender(cluster, TOPIC).send(1) == 1
    assert "an answer to Produce is lost" in cluster.story(began)


SHOWN: dict[str, Callable[[Cluster], None]] = {
    "kill": _is_down,
    "stop_node": _is_down,
    "pause": _leaves_the_isr,
    "partition": _leaves_the_isr,
    "slow": _is_slow,
    "disk_full": _ends_for_want_of_room,
    "corrupt": _is_damaged,
    "clock_jump": _is_an_hour_ahead,
    "drop_answers": _loses_an_answer,
    "lose_power": _is_down,
}


def check(cluster: Cluster, name: str, call: str) -> None:
    """Inject a fault, see that it does what it says, undo it, and see that nothing is left of it."""
    cluster.wait_in_sync(TOPIC)
    before = Sender(cluster, TOPIC)
    assert before.send(5) == 5
    began = cluster.timeline.now_s
    fault = inject(cluster, call)
    if isinstance(fault, Fault):
        assert fault.lasts
        SHOWN[name](cluster)
        fault.undo()
        assert f"undo: {fault.what}" in cluster.story(began)
    elif isinstance(fault, Chaos):
        with fault:
            cluster.wait_for(lambda: len(fault.faults) > 1, "faults")
    else:
        assert name == "restart"
        assert "stop node 1" in cluster.story(began)
    assert all(map(cluster.nodes.is_up, cluster.ids))
    cluster.wait_in_sync(TOPIC)
    after = Sender(cluster, TOPIC)
    assert after.send(5) == 5
    stored = {record.offset: record.value for record in cluster.records(TOPIC)}
    for sender in (before, after):
        assert sender.history.acked[0].items() <= stored.items()
