"""What a node reports over HTTP: metrics, liveness, readiness and health."""

import json
from collections.abc import Mapping
from pathlib import Path

from rookery.broker.node.broker_role import BrokerRole
from rookery.broker.node.controller_role import ControllerRole
from rookery.broker.node.partition_metrics import is_under_min_isr, is_under_replicated
from rookery.broker.node.self_report import self_report
from rookery.core.metrics import CONTENT_TYPE, Metrics
from rookery.core.net.http import Handler, Page, Query

LISTED_MAX = 100
"""Partitions named in /healthz at most."""
STATUS_PAGE = Path(__file__).with_name("status.html")
METADATA_LAG_MAX = 1000
"""Records of the metadata log a usable broker may be behind."""


class Health:
    """The pages of one node."""

    def __init__(
        self, node_id: int, metrics: Metrics, controller: ControllerRole | None, broker: BrokerRole | None
    ) -> None:
        self._node_id = node_id
        self._metrics = metrics
        self._controller = controller
        self._broker = broker
        self.started = False

    def pages(self) -> Mapping[str, Handler]:
        return {
            "/": self._status_page,
            "/metrics": self._metrics_page,
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/healthz": self._healthz,
        }

    def not_ready(self) -> list[str]:
        """Why this node cannot be used yet; empty when it can."""
        reasons = []
        if not self.started:
            reasons.append("the node is starting")
        if self._controller is not None and self._controller.raft.leader[0] < 0:
            reasons.append("the metadata quorum has no leader that this node knows of")
        broker = self._broker
        if broker is not None:
            recovery = broker.log_dirs.start_up.recovery
            if recovery.remaining:
                reasons.append(f"{recovery.remaining} of {recovery.partitions} partitions are being recovered")
            if not broker.lifecycle.running:
                reasons.append(f"the broker is {broker.lifecycle.state.name}")
            lag = broker.metadata.high_watermark - broker.metadata.position
            if lag > METADATA_LAG_MAX:
                reasons.append(f"the broker is {lag} metadata records behind")
        return reasons

    def unhealthy(self) -> list[str]:
        """What an operator should look at, besides what keeps the node from being ready."""
        broker = self._broker
        if broker is None:
            return []
        dirs = broker.log_dirs
        damaged = {place: why for place, why in list(dirs.damaged.items()) if dirs.still_damaged(place)}
        reasons = [f"log dir {path} is offline: {why}" for path, why in dirs.offline.items()]
        reasons += [f"{place} is damaged: {why}" for place, why in damaged.items()]
        for title, names in (
            ("offline", self._offline()),
            ("under-replicated", [str(p.topic_partition) for p in broker.partitions if is_under_replicated(p)]),
            ("below min.insync.replicas", [str(p.topic_partition) for p in broker.partitions if is_under_min_isr(p)]),
        ):
            if names:
                reasons.append(f"{len(names)} partition(s) {title}: {', '.join(names[:5])}{' ...' * (len(names) > 5)}")
        return reasons

    def _offline(self) -> list[str]:
        """Partitions with a replica here and without a leader."""
        broker = self._broker
        return [str(p.topic_partition) for p in broker.partitions if p.state.leader < 0] if broker else []

    async def _status_page(self, _: Query) -> Page:
        """For a browser, which asks for the other pages itself."""
        return Page(STATUS_PAGE.read_bytes(), "text/html; charset=utf-8")

    async def _metrics_page(self, _: Query) -> Page:
        return Page(await self._metrics.render(), CONTENT_TYPE)

    async def _livez(self, _: Query) -> Page:
        return Page(b"ok\n")

    async def _readyz(self, _: Query) -> Page:
        reasons = self.not_ready()
        return Page("".join(f"{r}\n" for r in reasons).encode() or b"ok\n", status=503 if reasons else 200)

    async def _healthz(self, query: Query) -> Page:
        reasons = self.not_ready() + self.unhealthy()
        if "verbose" not in query:
            return Page("".join(f"{r}\n" for r in reasons).encode() or b"ok\n", status=503 if reasons else 200)
        body = json.dumps(self._report(reasons), indent=1).encode() + b"\n"
        return Page(body, "application/json", 503 if reasons else 200)

    def _report(self, reasons: list[str]) -> dict[str, object]:
        broker, controller = self._broker, self._controller
        report: dict[str, object] = {
            "node": self._node_id,
            "healthy": not reasons,
            "ready": not self.not_ready(),
            "reasons": reasons,
            "process": self_report(),
        }
        if controller is not None:
            leader, epoch = controller.raft.leader
            active = controller.loop.controller.active
            report["controller"] = {"leader": leader, "epoch": epoch, "active": active}
        if broker is not None:
            report["broker"] = {
                "state": broker.lifecycle.state.name,
                "epoch": broker.lifecycle.epoch,
                "controller": broker.view.controller_id,
                "metadata_offset": broker.view.image.offset,
                "partitions": len(broker.partitions),
                "leaders": sum(p.is_leader and not p.offline for p in broker.partitions),
            }
            report["offline_partitions"] = self._offline()[:LISTED_MAX]
            report["under_replicated_partitions"] = [
                {"partition": str(p.topic_partition), "isr": list(p.state.isr), "replicas": list(p.state.replicas)}
                for p in broker.partitions
                if is_under_replicated(p)
            ][:LISTED_MAX]
        return report
