"""What this broker's connections to other brokers cost and whether they come about."""

from collections.abc import Callable, Mapping

from rookery.core.metrics import Kind, Metrics
from rookery.core.net.peers import Peers

PURPOSE = ("purpose",)


def publish_peers(metrics: Metrics, peers: Mapping[str, Peers]) -> None:
    """By what the connections are for: fetching from leaders, measuring the lag of consumer groups."""

    def read(name: str, text: str, value: Callable[[Peers], int], kind: Kind) -> None:
        metrics.read(
            name,
            text,
            lambda: [((purpose,), float(value(each))) for purpose, each in peers.items()],
            labels=PURPOSE,
            kind=kind,
        )

    read("rookery_peer_connections", "Open connections to other brokers.", lambda each: each.connections, "gauge")
    read("rookery_peer_connections_opened", "Connections opened.", lambda each: each.opened, "counter")
    read(
        "rookery_peer_connections_failed",
        "Attempts to connect that failed, and connections that were of no use.",
        lambda each: each.failed,
        "counter",
    )
