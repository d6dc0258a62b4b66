"""The names and figures dashboards query."""

import pytest

from rookery.broker.server.request_metrics import RequestMetrics, Times, TopicMetrics
from rookery.core.metrics import Metrics


def test_quantiles_are_right_within_their_bucket() -> None:
    times = Times()
    for milliseconds in range(1, 101):
        times.add(milliseconds / 1000)
    assert 50 <= times.quantile_ms(0.5) <= 100
    assert 99 <= times.quantile_ms(0.99) <= 198
    assert Times().quantile_ms(0.99) == 0


def test_what_takes_longer_than_all_buckets_counts_in_the_last() -> None:
    times = Times()
    times.add(1e6)
    assert times.quantile_ms(0.5) > 60_000


@pytest.mark.row(138, 139, 141)
async def test_requests_are_published_as_dashboards_expect() -> None:
    now = 0.0
    requests = RequestMetrics(lambda: now)
    metrics = Metrics()
    requests.publish(metrics)
    route = requests.route("Produce")
    route.versions[9] = 3
    route.at_once.add(0.002)
    route.error("NOT_LEADER_OR_FOLLOWER")
    requests.busy_s = 0.25
    now = 1.0
    value = metrics.value
    labels = {"request": "Produce"}
    prefix = "kafka_network_requestmetrics_"
    assert value(prefix + "requests_total", {**labels, "version": "9"}) == 3
    assert value(prefix + "errors_total", {**labels, "error": "NOT_LEADER_OR_FOLLOWER"}) == 1
    for part in ("total", "requestqueue", "local", "remote", "responsequeue", "responsesend"):
        assert value(f"{prefix}{part}timems", {**labels, "quantile": "0.99"}) is not None
        assert value(f"{prefix}{part}timems_count", labels) is not None
    assert value("rookery_request_seconds_bucket", {**labels, "le": "+Inf"}) == 1
    assert value("rookery_request_seconds_count", labels) == 1
    assert value("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent") == pytest.approx(0.75)
    text = await metrics.render()
    assert b'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}' in text


def test_topics_are_published_and_forgotten() -> None:
    metrics, topics = Metrics(), TopicMetrics()
    topics.publish(metrics)
    topics["orders"].bytes_in += 100
    name = "kafka_server_brokertopicmetrics_bytesin_total"
    assert metrics.value(name, {"topic": "orders"}) == 100
    topics.forget("orders")
    assert metrics.value(name, {"topic": "orders"}) is None
