"""Dashboards ask only for what exists, and find their data source."""

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.deploy.compose import DEPLOY
from tests.unit.deploy.promql import DASHBOARDS, dashboard_queries, metric_names, recorded, rules

NOT_OF_NODES = {"up", "ALERTS"}
"""Prometheus makes these itself."""
RARE = {"kafka_network_requestmetrics_errors_total", "kafka_server_fetcherlagmetrics_consumerlag"} | {
    "rookery_follower_lag_records",
    "rookery_tls_certificate_expiry_seconds",
}
"""Without a sample until something fails, a second broker follows, or a listener has a certificate."""


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ('sum by (topic) (rate(a_total{x="b"}[5m])) / on (instance) group_left (c) d:e > 0.5', {"a_total", "d:e"}),
        ("max(a and on (instance) b == 1) or vector(0)", {"a", "b"}),
        ('histogram_quantile(0.99, sum by (le) (rate(a_bucket{topic=~"$topic"}[1m])))', {"a_bucket"}),
    ],
)
def test_the_names_of_a_query(query: str, names: set[str]) -> None:
    assert metric_names(query) == names


def test_there_is_a_dashboard_for_each_concern() -> None:
    assert {path.stem for path in DASHBOARDS} == {
        "cluster", "topics", "replication", "quorum", "consumers", "pipelines",
    }  # fmt: skip


@pytest.mark.row(152)
def test_every_query_of_every_dashboard_asks_for_what_a_node_exports(scrape: str, scraped_names: set[str]) -> None:
    told = {line.split()[2] for line in scrape.splitlines() if line.startswith("# TYPE")}
    assert told >= RARE
    known = scraped_names | recorded() | NOT_OF_NODES | RARE
    unknown = {where: missing for where, query in dashboard_queries() if (missing := metric_names(query) - known)}
    assert unknown == {}


@pytest.mark.row(152)
def test_every_rule_asks_for_what_a_node_exports(scraped_names: set[str]) -> None:
    known = scraped_names | recorded() | NOT_OF_NODES | RARE
    unknown = {rule.get("alert") or rule["record"]: metric_names(rule["expr"]) - known for rule in rules()}
    assert {name: missing for name, missing in unknown.items() if missing} == {}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_are_distinct_and_use_the_provisioned_source(path: Path) -> None:
    board = json.loads(path.read_text())
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == source["uid"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


def test_dashboards_are_provisioned_from_where_compose_mounts_them() -> None:
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/rookery.yml").read_text())["providers"]
    compose = (DEPLOY / "compose.yaml").read_text()
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in compose
