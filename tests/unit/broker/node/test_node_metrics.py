from pathlib import Path

from rookery.broker.node.node_metrics import publish_io
from rookery.core.metrics import Metrics

READ = "kafka_server_kafkaserver_linux_disk_read_bytes"
WRITTEN = "kafka_server_kafkaserver_linux_disk_write_bytes"


def test_what_the_kernel_counts_is_reported(tmp_path: Path) -> None:
    (tmp_path / "io").write_text("rchar: 9\nwchar: 8\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 1\n")
    metrics = Metrics()
    publish_io(metrics, str(tmp_path / "io"))
    assert (metrics.value(READ), metrics.value(WRITTEN)) == (4096, 512)


async def test_where_it_does_not_nothing_is(tmp_path: Path) -> None:
    metrics = Metrics()
    publish_io(metrics, str(tmp_path / "none"))
    assert metrics.value(READ) is None
    assert b"linux_disk_read_bytes " in await metrics.render()
