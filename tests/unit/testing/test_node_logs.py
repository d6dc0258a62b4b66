"""Lines that processes have logged become entries of the timeline, once each."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from rookery.testing.node_logs import NodeLogs
from rookery.testing.timeline import Timeline


def line(after_s: float, text: str) -> str:
    at = datetime.now(UTC) + timedelta(seconds=after_s)
    return f"{at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')} {text}\n"


def test_lines_are_read_once_and_in_order_of_time(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    log.write_text(
        line(-60, "INFO    broker.running node=2 broker=2")
        + line(1, "INFO    leader.elected topic=t partition=0 leader=2 node=2")
        + line(1, "WARNING raft.peer.failed node=2 peer=1")
        + line(1, "DEBUG   detail node=2")
        + "Traceback (most recent call last):\n"
        + line(2, "INFO    node.stop")[:-1]
    )
    timeline = Timeline()
    logs = NodeLogs(timeline)
    timeline.follow(lambda: logs.more(2, log))
    timeline.add("test", "kill node 1")
    assert [(entry.who, entry.what) for entry in timeline.entries()] == [
        ("test", "kill node 1"),
        ("node-2", "leader.elected topic=t partition=0 leader=2"),
    ]
    with log.open("a") as file:
        file.write("ped node=2\n" + line(0.5, "ERROR   log.dir.failed path=/data"))
    assert [entry.what for entry in timeline.entries()] == [
        "kill node 1",
        "log.dir.failed path=/data",
        "leader.elected topic=t partition=0 leader=2",
        "node.stopped",
    ]
    log.unlink()
    assert len(timeline.entries()) == 4
