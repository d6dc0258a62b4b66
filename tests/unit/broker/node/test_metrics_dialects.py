"""Names of other exporters beside our own."""

import pytest

from rookery.broker.node.metrics_dialects import DIALECTS, Rate, other_names, publish_dialects
from rookery.core.config import node as keys
from rookery.core.config.options import ConfigError
from rookery.core.metrics import Metrics
from rookery.core.testing.clock import ManualClock

BYTES_IN = "kafka_server_brokertopicmetrics_bytesin"
SHRINKS = "kafka_server_replicamanager_isrshrinks"


@pytest.mark.row(152)
@pytest.mark.parametrize(
    ("dialect", "name", "others"),
    [
        ("strimzi", "kafka_server_raft_metrics_high_watermark", ["kafka_server_raftmetrics_high_watermark"]),
        ("strimzi", f"{BYTES_IN}_total", []),
        ("strimzi-reporter", f"{BYTES_IN}_total", [f"{BYTES_IN}persec_total"]),
        ("strimzi-reporter", f"{SHRINKS}_total", [f"{SHRINKS}persec_total"]),
        ("strimzi-reporter", "kafka_server_raft_metrics_high_watermark", []),
        (
            "strimzi-reporter",
            "kafka_network_socketserver_networkprocessoravgidle_percent",
            ["kafka_network_socketserver_networkprocessoravgidlepercent"],
        ),
        ("mixin", f"{BYTES_IN}_total", [f"{BYTES_IN}persec"]),
        ("mixin", f"{SHRINKS}_total", []),
        ("mixin", "kafka_log_log_size", []),
    ],
)
def test_what_a_dialect_calls_a_metric(dialect: str, name: str, others: list[str]) -> None:
    assert list(other_names(dialect, name)) == others


def test_the_option_takes_every_dialect_and_no_other() -> None:
    assert keys.METRICS_DIALECTS.parse(",".join(DIALECTS)) == DIALECTS
    with pytest.raises(ConfigError, match="strimzi-reporter"):
        keys.METRICS_DIALECTS.parse("telegraf")


def traffic() -> Metrics:
    metrics = Metrics()
    metrics.read(BYTES_IN, "Bytes.", lambda: [(("orders",), 7)], labels=["topic"], kind="counter")
    metrics.read_value(SHRINKS, "Shrinks.", lambda: 3, kind="counter")
    return metrics


@pytest.mark.row(152)
async def test_both_names_are_reported_with_the_same_value() -> None:
    metrics = traffic()
    publish_dialects(metrics, ["strimzi-reporter", "mixin"], ManualClock().monotonic)
    text = (await metrics.render()).decode()
    for name in (f"{BYTES_IN}_total", f"{BYTES_IN}persec_total", f"{BYTES_IN}persec"):
        assert f'{name}{{topic="orders"}} 7.0\n' in text
    assert f"{SHRINKS}persec_total 3.0\n" in text
    assert f"{SHRINKS}persec 0.0\n" in text


async def test_nobody_asked_for_another_name() -> None:
    metrics = traffic()
    publish_dialects(metrics, [], ManualClock().monotonic)
    assert "persec" not in (await metrics.render()).decode()


def test_a_rate_rises_with_its_total_and_falls_back_to_0() -> None:
    clock, total = ManualClock(), 5.0
    rate = Rate(clock.monotonic, lambda: total)
    assert rate() == 0.0
    clock.advance(30)
    total += 60
    assert rate() == pytest.approx(2.0)
    clock.advance(30)
    assert rate() == pytest.approx(1.0)
    clock.advance(61)
    assert rate() == 0.0


def test_a_rate_that_is_asked_all_the_time_remembers_a_minute() -> None:
    clock = ManualClock()
    rate = Rate(clock.monotonic, clock.monotonic)
    for _ in range(2000):
        clock.advance(0.1)
        rate()
    assert rate() == pytest.approx(1.0)
    assert len(rate._seen) < 70

