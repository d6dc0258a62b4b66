"""Alert rules: Prometheus' own tool accepts them, each fires and clears as its test says, and each is documented."""

import subprocess

import pytest
import yaml

from tests import needs
from tests.tidy.source import ROOT
from tests.unit.deploy.compose import DEPLOY, FILES, nodes, read
from tests.unit.deploy.promql import rules

PROMETHEUS = DEPLOY / "prometheus"
ALERTS = {rule["alert"]: rule for rule in rules() if "alert" in rule}


def promtool(*arguments: str) -> None:
    tool = needs.command("promtool", "Debian's package prometheus has it")
    done = subprocess.run([tool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.row(152)
def test_the_configuration_is_one() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "config", "dedicated.yml")


@pytest.mark.row(152)
def test_rules_do_what_their_tests_say() -> None:
    promtool("test", "rules", "tests/alerts.yml")


def test_every_alert_has_a_test() -> None:
    text = (PROMETHEUS / "tests" / "alerts.yml").read_text()
    assert {name for name in ALERTS if name not in text} == set()


def test_every_alert_says_what_to_do() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    headings = {line.lstrip("# ").strip() for line in page.splitlines() if line.startswith("#")}
    for name, rule in ALERTS.items():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{name.lower()}"
        assert name in headings, f"docs/operations.md does not tell of {name}"


@pytest.mark.parametrize(("file", "config"), list(zip(FILES, ("prometheus.yml", "dedicated.yml"), strict=True)))
def test_every_node_is_scraped_where_it_listens(file: str, config: str) -> None:
    job = yaml.safe_load((PROMETHEUS / config).read_text())["scrape_configs"][0]
    targets = {target for group in job["static_configs"] for target in group["targets"]}
    assert targets == {f"{service}:8080" for service in nodes(file)}
    mounted = read(file)["services"]["prometheus"]["volumes"]
    assert f"./prometheus/{config}:/etc/prometheus/prometheus.yml:ro" in mounted
