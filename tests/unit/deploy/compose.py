"""The compose files as compose reads them: YAML with anchors, variables replaced by their defaults."""

import re
from typing import Any

import yaml

from tests.tidy.source import ROOT

DEPLOY = ROOT / "deploy"
FILES = ("compose.yaml", "compose.dedicated.yaml")
SECURE = "compose.secure.yaml"
VARIABLE = re.compile(r"\$\{(\w+):([-?])([^}]*)\}")


def read(name: str) -> dict[str, Any]:
    """What has no default, since it is a secret, has its own name for a value."""
    text = VARIABLE.sub(lambda found: found[3] if found[2] == "-" else found[1], (DEPLOY / name).read_text())
    return dict(yaml.safe_load(text))


def nodes(name: str) -> dict[str, dict[str, Any]]:
    """The services that are nodes of the cluster."""
    services = read(name)["services"]
    return {service: body for service, body in services.items() if body["image"].startswith("rookery:")}


def environment(body: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in body["environment"].items()}
