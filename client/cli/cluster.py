"""`rookery cluster`: nodes, controller, features, and partitions that are not as they should be."""

import argparse
import asyncio
import sys
import time
from datetime import datetime
from typing import Any

from rookery.client.admin import Admin
from rookery.client.cli.common import (
    access_of,
    add_bootstrap,
    add_http,
    add_output,
    painted,
    show,
    table,
    with_admin,
    with_cluster,
)
from rookery.client.errors import UnhealthyError, UsageError
from rookery.core.errors import KafkaError
from rookery.core.net.cluster import BootstrapError, Cluster, ClusterMetadata, check
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)

EXIT_UNHEALTHY = 3
METADATA_TOPIC = "__cluster_metadata"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("cluster", help="show nodes, controller, features and health; wait for it, watch it")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    status = actions.add_parser(
        "status", help="nodes, controller, and partitions in trouble; exit code 3 if any"
    )
    add_bootstrap(status)
    add_output(status)
    status.set_defaults(run=with_cluster(_status))

    describe = actions.add_parser("describe", help="cluster id, quorum, features and brokers")
    add_bootstrap(describe)
    add_output(describe)
    describe.set_defaults(run=with_admin(_describe))

    health = actions.add_parser("health", help="healthy or not, in a word and by exit code: 0, or 3")
    health.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="wait until it is healthy")
    add_bootstrap(health)
    add_output(health)
    health.set_defaults(run=with_cluster(_health))

    watch = actions.add_parser("watch", help="print a line whenever the state changes, until interrupted")
    watch.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="how often to look (1)")
    watch.add_argument(
        "--metrics",
        action="store_true",
        help="a table of the core metrics of each node, once an interval; for nodes of Rookery",
    )
    watch.add_argument("-n", "--count", type=int, help="stop after so many lines, or tables")
    add_http(watch)
    add_bootstrap(watch)
    add_output(watch)
    watch.set_defaults(run=_watch)


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
    if arguments.output != "table":
        report = {
            "cluster_id": view.cluster_id,
            "controller": controller,
            "nodes": nodes,
            "trouble": rows,
        }
        show([report], ("cluster_id", "controller"), arguments.output)
    else:
        print(f"cluster {view.cluster_id}  controller {controller}  partitions {len(leaders)}")
        print(table(nodes, ("node", "address", "rack", "leaders")))
        print(
            table(rows, ("partition", "state", "isr", "osr")) if rows else "healthy: every replica is in sync"
        )
    return EXIT_UNHEALTHY if rows else 0


async def _describe(admin: Admin, arguments: argparse.Namespace) -> None:
    cluster = await admin.describe_cluster(fenced=True)
    quorum = await admin.describe_quorum()
    features = await admin.describe_features()
    brokers = [
        {
            "node": each.id,
            "address": f"{each.host}:{each.port}",
            "rack": each.rack or "-",
            "state": "fenced" if each.fenced else "running",
        }
        for each in sorted(cluster.brokers)
    ]
    report = {
        "cluster_id": cluster.cluster_id,
        "controller": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [each.id for each in quorum.voters],
        "observers": [each.id for each in quorum.observers],
        "features": dict(sorted(features.finalized.items())),
        "brokers": brokers,
    }
    if arguments.output != "table":
        show([report], ("cluster_id", "controller", "epoch", "voters", "observers"), arguments.output)
        return
    print(f"cluster {cluster.cluster_id}  controller {quorum.leader_id} since epoch {quorum.leader_epoch}")
    print(f"voters {report['voters']}  observers {report['observers']}  metadata offset {quorum.high_watermark}")
    print("features " + " ".join(f"{name}={level}" for name, level in sorted(features.finalized.items())))
    print(table(brokers, ("node", "address", "rack", "state")))


STATE_COLUMNS = ("state", "problems", "controller", "brokers")


async def _state(cluster: Cluster) -> dict[str, Any]:
    """Healthy, or what is wrong."""
    try:
        view = await cluster.refresh(None)
        controller = await _controller(cluster)
    except (KafkaError, BootstrapError, ConnectionLostError, OSError) as error:
        return dict(zip(STATE_COLUMNS, ("unknown", [str(error)], "unknown", []), strict=True))
    rows = trouble(view)
    offline = sum(row["state"] == "offline" for row in rows)
    wrong = []
    if controller == "none":
        wrong.append("no controller")
    if offline:
        wrong.append(f"{offline} partition(s) offline")
    if len(rows) > offline:
        wrong.append(f"{len(rows) - offline} under-replicated")
    state = "unhealthy" if wrong else HEALTHY
    return dict(zip(STATE_COLUMNS, (state, wrong, controller, sorted(view.nodes)), strict=True))


def _line(state: dict[str, Any]) -> str:
    """For people; programs have the row."""
    if state["state"] == "unknown":
        return f"{painted('unknown', 'red')}: {state['problems'][0]}"
    nodes = ",".join(map(str, state["brokers"]))
    health = painted("; ".join(state["problems"]) or HEALTHY, "red" if state["problems"] else "green")
    return f"{health}  controller {state['controller']}  brokers {nodes}"


HEALTHY = "healthy"
CLEAR = "\x1b[H\x1b[2J"
"""On a terminal each table takes the place of the one before."""
POLL_S = 0.5


async def _health(cluster: Cluster, arguments: argparse.Namespace) -> None:
    deadline = time.monotonic() + arguments.wait
    state = await _state(cluster)
    while state["state"] != HEALTHY:
        if time.monotonic() >= deadline:
            if arguments.output != "table":
                show([state], STATE_COLUMNS, arguments.output)
            raise UnhealthyError(f"{_line(state)}. `rookery doctor` says what to do")
        await asyncio.sleep(POLL_S)
        state = await _state(cluster)
    if arguments.output == "table":
        print(_line(state))
    else:
        show([state], STATE_COLUMNS, arguments.output)


def _watch(arguments: argparse.Namespace) -> int:
    if arguments.interval <= 0:
        raise UsageError(f"--interval {arguments.interval:g}: more than 0 seconds are needed")
    return (with_admin(_watch_metrics) if arguments.metrics else with_cluster(_watch_state))(arguments)


async def _watch_metrics(admin: Admin, arguments: argparse.Namespace) -> None:
    """Asks for the addresses once: nodes keep them. A node that does not answer is left out and named."""
    from rookery.client import core_metrics
    from rookery.client.cli.events import note, served
    from rookery.client.node_pages import PageError, text_page

    access, (addresses, failures) = access_of(arguments), await served(admin, arguments.http)
    note(failures.values())

    async def look(number: int, address: str) -> tuple[int, core_metrics.Look] | None:
        try:
            text = await text_page(address, "/metrics", access)
        except PageError as error:
            print(f"rookery: {error}", file=sys.stderr)
            return None
        return number, core_metrics.Look(time.monotonic(), core_metrics.read_samples(text))

    async def look_at_all() -> dict[int, core_metrics.Look]:
        return dict(filter(None, await asyncio.gather(*(look(n, at) for n, at in addresses.items()))))

    before, tables = await look_at_all(), 0
    while arguments.count is None or tables < arguments.count:
        await asyncio.sleep(arguments.interval)
        now = await look_at_all()
        rows = core_metrics.rows(before, now)
        if arguments.output == "table":
            print(f"{CLEAR * sys.stdout.isatty()}{time.strftime('%H:%M:%S')}")
            print(table(rows, core_metrics.COLUMNS))
        else:
            moment = datetime.now().astimezone().isoformat(timespec="milliseconds")
            output = "jsonl" if arguments.output == "json" else arguments.output
            show([{**row, "time": moment} for row in rows], (*core_metrics.COLUMNS, "time"), output)
        sys.stdout.flush()
        before, tables = now, tables + 1


async def _watch_state(cluster: Cluster, arguments: argparse.Namespace) -> None:
    shown: dict[str, Any] = {}
    lines = 0
    while arguments.count is None or lines < arguments.count:
        state = await _state(cluster)
        if state != shown:
            if arguments.output == "table":
                print(time.strftime("%H:%M:%S"), _line(state))
            else:  # a row at a time, whatever the form: a list would never end
                now = {"time": datetime.now().astimezone().isoformat(timespec="milliseconds"), **state}
                output = "jsonl" if arguments.output == "json" else arguments.output
                show([now], ("state", "time", *STATE_COLUMNS[1:]), output)
            sys.stdout.flush()
            shown, lines = state, lines + 1
            continue
        await asyncio.sleep(arguments.interval)
