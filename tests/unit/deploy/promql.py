"""The queries of dashboards and rules, and the names of the metrics they ask for."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.unit.deploy.compose import DEPLOY

DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
OF_PIPELINES = "pipelines"
"""The dashboard of what pipelines publish, not nodes."""
RULES = sorted((DEPLOY / "prometheus" / "rules").glob("*.yml"))

_NOT_NAMES = re.compile(
    r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\$\w+|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)'
)
_NAME = re.compile(r"(?<![\w:.])[A-Za-z_:][\w:]*(?!\s*\()(?![\w:])")
_WORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right"}


def metric_names(query: str) -> set[str]:
    """The metrics of a query: what is left without strings, selectors, ranges, label lists and functions."""
    return {name for name in _NAME.findall(_NOT_NAMES.sub(" ", query))} - _WORDS


def dashboard_queries(*, of_pipelines: bool = False) -> Iterator[tuple[str, str]]:
    """(where, query) of all panels and variables: of nodes, or of pipelines."""
    for path in DASHBOARDS:
        if (path.stem == OF_PIPELINES) != of_pipelines:
            continue
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{path.stem}: {panel['title']}", target["expr"]
        for variable in board["templating"]["list"]:
            yield f"{path.stem}: ${variable['name']}", re.sub(r"label_values\((.*), \w+\)", r"\1", variable["query"])


def rules() -> Iterator[dict[str, Any]]:
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]


def recorded() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}
