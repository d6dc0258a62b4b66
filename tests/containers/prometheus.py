"""A real Prometheus server with the rules of the checkout, scraping a cluster of containers."""

import json
import subprocess
import tempfile
import urllib.error
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from tests import needs
from tests.cluster.local import WAIT_S, wait_for
from tests.containers.cluster import fetch
from tests.ports import free_ports
from tests.unit.deploy.compose import DEPLOY

INTERVAL = "2s"
"""Also the time a scrape may take: one that comes too late starts an alert's `for` anew."""
STOP_S = 60


class Prometheus:
    """Questions to a server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def _get(self, path: str, **query: str) -> Any:
        return json.loads(fetch(f"{self._url}{path}?{urllib.parse.urlencode(query)}", WAIT_S))

    @property
    def ready(self) -> bool:
        try:
            return bool(fetch(f"{self._url}/-/ready"))
        except OSError:
            return False

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of every sample now; a query that is wrong raises."""
        try:
            answer = self._get("/api/v1/query", query=expression)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        data = answer["data"]
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(sample["metric"], float(sample["value"][1])) for sample in data["result"]]

    def value(self, expression: str) -> float | None:
        """The one value of a query, or None while there is none."""
        found = self.query(expression)
        return found[0][1] if len(found) == 1 else None

    def targets_up(self) -> int:
        return sum(target["health"] == "up" for target in self._get("/api/v1/targets")["data"]["activeTargets"])

    def firing(self) -> set[str]:
        alerts = self._get("/api/v1/alerts")["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def configuration(
    targets: list[str], file: str = "prometheus.yml", access: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """The shipped configuration with other addresses, asked more often; the rules as they are. `access` is what a
    secured cluster asks for."""
    config = yaml.safe_load((DEPLOY / "prometheus" / file).read_text())
    config["global"] = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
    config["rule_files"] = [str(DEPLOY / "prometheus" / rules) for rules in config["rule_files"]]
    job, *_ = config["scrape_configs"]
    config["scrape_configs"] = [job]
    job.update(static_configs=[{"targets": targets}], **access)
    return str(yaml.safe_dump(config))


@contextmanager
def prometheus(targets: list[str], access: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Prometheus]:
    """A server that scrapes `targets`, gone afterwards."""
    command = needs.command("prometheus", "Debian's package of that name")
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="rookery-test-") as folder:
        config = Path(folder) / "prometheus.yml"
        config.write_text(configuration(targets, access=access))
        with (Path(folder) / "prometheus.log").open("w+") as log:
            process = subprocess.Popen(
                [
                    command,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                server = Prometheus(port)
                wait_for(lambda: server.ready or process.poll() is not None, "Prometheus")
                assert process.poll() is None, Path(log.name).read_text()
                yield server
            finally:
                process.terminate()
                process.wait(STOP_S)
