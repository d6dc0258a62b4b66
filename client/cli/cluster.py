"""`rookery cluster status`: nodes, controller, and partitions that are not as they should be."""

import argparse
from typing import Any

from rookery.client.cli.common import add_bootstrap, show, table, with_cluster
from rookery.core.errors import KafkaError
from rookery.core.net.cluster import Cluster, ClusterMetadata, check
from rookery.core.wire.apis.describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)

EXIT_UNHEALTHY = 3
METADATA_TOPIC = "__cluster_metadata"


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


async def _controller(cluster: Cluster) -> int | str:
    """The active controller, which leads the metadata quorum. Metadata names any broker, for clients that send it what
    brokers pass on."""
    partition = PartitionData(partition_index=0)
    request = DescribeQuorumRequest(topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[partition])])
    answer = await cluster.ask_any(DESCRIBE_QUORUM, request)
    check(answer.error_code, "the metadata quorum", answer.error_message)
    quorum = answer.topics[0].partitions[0]
    return quorum.leader_id if quorum.leader_id >= 0 and not quorum.error_code else "none"


async def _status(cluster: Cluster, arguments: argparse.Namespace) -> int:
    view = await cluster.refresh(None)
    controller: int | str
    try:
        controller = await _controller(cluster)
    except KafkaError as error:
        controller = f"unknown ({error})"
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
            "controller": controller,
            "nodes": nodes,
            "trouble": rows,
        }
        show([report], (), "json")
    else:
        print(f"cluster {view.cluster_id}  controller {controller}  partitions {len(leaders)}")
        print(table(nodes, ("node", "address", "rack", "leaders")))
        print(
            table(rows, ("partition", "state", "isr", "osr")) if rows else "healthy: every replica is in sync"
        )
    return EXIT_UNHEALTHY if rows else 0
