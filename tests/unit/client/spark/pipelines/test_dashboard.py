"""The dashboard of pipelines asks for what they publish, and Prometheus' file says where."""

import yaml

from rookery.client.spark.pipelines.metrics import PipelineMetrics
from rookery.client.spark.progress import Progress
from tests.unit.deploy.compose import DEPLOY
from tests.unit.deploy.promql import dashboard_queries, metric_names


def test_every_query_asks_for_what_a_pipeline_publishes() -> None:
    metrics = PipelineMetrics("lake")
    metrics.report(Progress("rows", behind=0))
    published = {sample.name for family in metrics.collect() for sample in family.samples}
    asked = [metric_names(query) for _, query in dashboard_queries(of_pipelines=True)]
    assert asked
    assert {name for names in asked for name in names} <= published


def test_prometheus_scrapes_the_pipeline_of_the_compose_file() -> None:
    (job,) = (
        job
        for job in yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
        if job["job_name"] == "rookery-pipelines"
    )
    (found,) = job["dns_sd_configs"]
    assert (found["names"], found["port"]) == (["pipeline"], 9464)
