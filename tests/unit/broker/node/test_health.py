"""What /healthz says of a broker."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rookery.broker.node.broker_role import BrokerRole
from rookery.broker.node.health import Health
from rookery.core.metrics import Metrics
from rookery.core.net.http import Page, Query


def partition(index: int, *, offline: bool) -> Any:
    state = SimpleNamespace(leader=1, isr=(1,), replicas=(1,))
    return SimpleNamespace(
        topic_partition=f"orders-{index}", state=state, is_leader=True, offline=offline, below_min_isr=False,
    )  # fmt: skip


async def test_a_partition_on_an_offline_directory_counts_for_no_leader() -> None:
    broker = SimpleNamespace(
        log_dirs=SimpleNamespace(
            start_up=SimpleNamespace(recovery=SimpleNamespace(remaining=0, partitions=0)),
            offline={"/data/2": "EIO"},
            damaged={},
        ),
        lifecycle=SimpleNamespace(running=True, state=SimpleNamespace(name="RUNNING"), epoch=7),
        metadata=SimpleNamespace(high_watermark=5, position=5),
        view=SimpleNamespace(controller_id=1, image=SimpleNamespace(offset=5)),
        partitions=[partition(0, offline=False), partition(1, offline=True)],
    )
    health = Health(1, Metrics(), None, cast(BrokerRole, broker))
    health.started = True
    page = await health.pages()["/healthz"](Query({"verbose": ""}))
    assert isinstance(page, Page)
    report = json.loads(page.body)
    assert page.status == 503
    assert (report["broker"]["partitions"], report["broker"]["leaders"]) == (2, 1)
    process = report["process"]
    assert 0 < process["open_files"] < process["open_files_max"]
    assert 0 < process["memory_available_bytes"] < process["memory_total_bytes"]
    assert process["version"]


@pytest.mark.row(185)
async def test_the_page_for_browsers_names_metrics_that_exist() -> None:
    """It asks the node's other pages itself, so that a wrong name would show nothing."""
    page = await Health(1, Metrics(), None, None).pages()["/"](Query())
    assert isinstance(page, Page)
    assert page.content_type.startswith("text/html")
    text = page.body.decode()
    named = set(re.findall(r'"(kafka_[a-z_]+)"', text))
    documented = (Path(__file__).parents[4] / "docs" / "metrics.md").read_text()
    assert len(named) > 5
    assert named <= set(re.findall(r"`(\w+)`", documented))
    assert set(re.findall(r"fetch\([`\"](/\w+)", text)) == {"/metrics", "/healthz", "/events"}
    assert "://" not in text, "it needs nothing from elsewhere"
