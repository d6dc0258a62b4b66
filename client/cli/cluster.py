"""`rookery cluster status`: nodes, controller, and partitions that are not as they should be."""

import argparse
from typing import Any

from rookery.client.cli.common import add_bootstrap, show, table, with_cluster
from rookery.core.net.cluster import Cluster, ClusterMetadata

EXIT_UNHEALTHY = 3


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("cluster", help="show nodes, controller and health")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    status = actions.add_parser(
        "status", help="nodes, controller, and partitions in trouble; exit code 3 if any"
    )
    status.add_argument("-o", "--output", choices=("table", "json"), default="table")
    add_bootstrap(status)
    status.set_defaults(run=with_cluster(_status))


def trouble(view: ClusterMetadata) -> list[dict[str, Any]]:
    """Partitions without leader, or with replicas out of sync."""
    rows = []
    for topic in sorted(view.topics.values(), key=lambda topic: topic.name):
        for index, partition in sorted(topic.partitions.items()):
            out = [replica for replica in partition.replicas if replica not in partition.isr]
            if partition.leader < 0:
                state = "offline"
            elif out:
                state = "under-replicated"
            else:
                continue
            rows.append(
                {"partition": f"{topic.name}-{index}", "state": state, "isr": list(partition.isr), "osr": out}
            )
    return rows


async def _status(cluster: Cluster, arguments: argparse.Namespace) -> int:
    view = await cluster.refresh(None)
    leaders = [p.leader for topic in view.topics.values() for p in topic.partitions.values()]
    nodes = [
        {
            "node": node.id,
            "address": node.address,
            "rack": node.rack or "-",
            "leaders": leaders.count(node.id),
        }
        for _, node in sorted(view.nodes.items())
    ]
    rows = trouble(view)
    if arguments.output == "json":
        report = {
            "cluster_id": view.cluster_id,
            "controller": view.controller_id,
            "nodes": nodes,
            "trouble": rows,
        }
        show([report], (), "json")
    else:
        print(f"cluster {view.cluster_id}  controller {view.controller_id}  partitions {len(leaders)}")
        print(table(nodes, ("node", "address", "rack", "leaders")))
        print(
            table(rows, ("partition", "state", "isr", "osr")) if rows else "healthy: every replica is in sync"
        )
    return EXIT_UNHEALTHY if rows else 0
