"""Starting, keeping and stopping the processes of a local cluster.

`bring_up` is idempotent: nodes that live are kept, dead ones are started again on their data, more nodes may be
added as brokers; any other change of shape is refused. Nothing here restarts a node by itself later.
"""

import json
import os
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rookery.client.cli.errors import CliError, UnhealthyError, UsageError
from rookery.client.local import cluster_file, processes
from rookery.client.local.cluster_file import ClusterFile, RunningNode
from rookery.client.local.shape import HOST, HTTP_STEP, NODES_MAX, NodePlan, Shape, controllers_for
from rookery.core.config.loading import load, read_properties
from rookery.core.config.options import ConfigError
from rookery.core.ids import id_text, new_id

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 40.0
PORT_RELEASE_S = 1.0
"""A node that was just killed may hold its ports for a moment."""
LOG_LINES_SHOWN = 15
PORT_MAX = 65535
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked `up` for."""

    folder: Path
    nodes: int
    port: int
    overrides: Mapping[str, str]
    ephemeral: bool


class NodeEndedError(UnhealthyError):
    """A node ended while starting."""


def bring_up(wish: Wish, say: Say) -> ClusterFile:
    """Make the cluster of `wish.folder` run as wished, and return when every node is ready."""
    if not 1 <= wish.nodes <= NODES_MAX:
        raise UsageError(f"--nodes {wish.nodes}: from 1 to {NODES_MAX} nodes can run on one machine")
    last = PORT_MAX - HTTP_STEP - wish.nodes + 1
    if not 0 <= wish.port <= last:
        raise UsageError(
            f"--port {wish.port}: the first of {wish.nodes} node(s) can be on port 1 to {last} (0 finds free ones); "
            f"the ports up to {HTTP_STEP + wish.nodes - 1} above it are used, too"
        )
    folder = wish.folder.resolve()
    try:
        return _bring_up(wish, folder, say)
    except OSError as error:
        raise CliError(
            f"the cluster cannot be kept in {folder}: {error.strerror or error}"
            + (f" ({error.filename})" if error.filename and error.filename != str(folder) else "")
            + ". Choose another folder: rookery up --data DIR"
        ) from error


def _bring_up(wish: Wish, folder: Path, say: Say) -> ClusterFile:
    folder.mkdir(parents=True, exist_ok=True)
    before = existing(folder)
    shape = _shape(replace(wish, folder=folder), before)
    living = (
        {node.id: node for node in before.nodes if processes.is_running(node.pid, node.started)}
        if before
        else {}
    )
    dead = [plan for plan in shape.plans() if plan.id not in living]
    overrides = {**(before.overrides if before else {}), **wish.overrides}
    _check_overrides(shape, overrides, wish.overrides, say)
    _refuse_busy_ports(dead, asked=wish.port)
    nodes = dict(living)
    try:
        for plan in dead:
            nodes[plan.id] = _start(shape, plan, overrides)
    finally:  # also when interrupted: what was started can be stopped by whoever reads the file
        cluster = ClusterFile(
            cluster_id=shape.cluster_id,
            bootstrap=shape.bootstrap,
            nodes=tuple(nodes[node_id] for node_id in sorted(nodes)),
            controllers=shape.controllers,
            overrides=overrides,
            ephemeral=wish.ephemeral or (before.ephemeral if before else False),
        )
        cluster_file.write(folder, cluster)
    if living:
        say(f"kept {len(living)} running node(s), started {len(dead)}")
    try:
        _wait_ready(cluster, dead)
    except NodeEndedError:  # perhaps because of what was set: the next try must not inherit it
        cluster_file.write(folder, replace(cluster, overrides=before.overrides if before else {}))
        raise
    return cluster


def _check_overrides(shape: Shape, overrides: Mapping[str, str], new: Mapping[str, str], say: Say) -> None:
    """Refuse what no node would start with, before anything is stored, and pass on what nodes would warn of."""
    plan = shape.plan(1)
    own = read_properties(shape.properties(plan, {}))
    fixed = [key for key in new if key in own and key not in shape.defaults()]
    if fixed:
        raise UsageError(f"--set {fixed[0]}: `rookery up` sets it itself, for each node")
    try:
        loaded = load([("--set", read_properties(shape.properties(plan, overrides)))])
    except ConfigError as error:
        raise UsageError(f"--set: {error}") from error
    for warning in loaded.warnings:
        say(f"note: {warning}")


def bring_down(folder: Path, say: Say) -> None:
    """Stop every node in order, the last started first, and wait for each."""
    cluster = existing(folder.resolve())
    if cluster is None:
        raise CliError(f"there is no cluster in {folder}: {folder / cluster_file.NAME} does not exist")
    stopped = sum(stop_node(node, say) for node in reversed(cluster.nodes))
    say(f"stopped {stopped} node(s)" if stopped else "no node was running")
    if cluster.ephemeral:
        for node in cluster.nodes:
            shutil.rmtree(node.data, ignore_errors=True)
        (folder.resolve() / cluster_file.NAME).unlink()
        say("removed the data, as --ephemeral asked")


def stop_node(node: RunningNode, say: Say) -> bool:
    """Controlled shutdown of one node; killed only when it does not end in time."""
    if not processes.send_signal(node.pid, node.started, signal.SIGTERM):
        return False
    if not processes.wait_until(lambda: has_ended(node), STOP_TIMEOUT_S):
        say(
            f"node {node.id} did not stop within {STOP_TIMEOUT_S:.0f} s and was killed; its log: {node.data}/node.log"
        )
        processes.send_signal(node.pid, node.started, signal.SIGKILL)
        processes.wait_until(lambda: has_ended(node), STOP_TIMEOUT_S)
    return True


def has_ended(node: RunningNode) -> bool:
    """Whether a node's process is gone."""
    processes.reap(node.pid)
    return not processes.is_running(node.pid, node.started)


def existing(folder: Path) -> ClusterFile | None:
    """The cluster of a folder as its file tells, running or not."""
    try:
        return cluster_file.read(folder)
    except cluster_file.DamagedClusterFileError as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(f"{folder} is no folder of a cluster: {error.strerror or error}") from error


def _shape(wish: Wish, before: ClusterFile | None) -> Shape:
    """The shape asked for, checked against the one that exists."""
    if before is None:
        port = wish.port or _free_block(wish.nodes)
        return Shape(id_text(new_id()), wish.folder, port, wish.nodes, controllers_for(wish.nodes))
    if wish.nodes < len(before.nodes):
        raise UsageError(
            f"--nodes {wish.nodes}: the cluster in {wish.folder} has {len(before.nodes)} nodes, and nodes hold data; "
            "moving it off a node first is not done by this command"
        )
    if wish.port not in (0, before.port()):
        raise UsageError(
            f"--port {wish.port}: the cluster in {wish.folder} is on port {before.port()}; "
            "its nodes know each other by these ports. Use another --data for another cluster"
        )
    return Shape(before.cluster_id, wish.folder, before.port(), wish.nodes, before.controllers)


def _free_block(nodes: int) -> int:
    """A port from which on all ports of the cluster are free. Where the search begins differs from process to
    process, so that clusters that start at the same time do not choose the same one."""
    ports = list(range(19092, 32500, 300))  # above, systems take ports for outgoing connections
    first = os.getpid() % len(ports)
    for port in ports[first:] + ports[:first]:
        block = Shape("", Path(), port, nodes, 0)
        if all(processes.port_is_free(each) for plan in block.plans() for each in plan.ports):
            return port
    raise CliError("no block of free ports was found between 19092 and 32500")


def _refuse_busy_ports(plans: list[NodePlan], asked: int) -> None:
    for plan in plans:
        for port in plan.ports:
            if not processes.wait_until(partial(processes.port_is_free, port), PORT_RELEASE_S):
                holder = processes.holder_of(port)
                raise CliError(
                    f"port {port}, needed by node {plan.id}, is in use"
                    + (f" by {holder}" if holder else "")
                    + f". Stop it, or choose other ports: rookery up --port {asked + 1000 if asked else 29092} "
                    "(--port 0 finds free ones)"
                )


def _start(shape: Shape, plan: NodePlan, overrides: Mapping[str, str]) -> RunningNode:
    plan.data.mkdir(parents=True, exist_ok=True)
    plan.properties.write_text(shape.properties(plan, overrides))
    pid, started = processes.start_node(plan)
    return RunningNode(
        id=plan.id,
        pid=pid,
        started=started,
        kafka=f"{HOST}:{plan.kafka_port}",
        grpc=f"{HOST}:{plan.grpc_port}",
        http=f"{HOST}:{plan.http_port}",
        data=str(plan.data),
    )


def _wait_ready(cluster: ClusterFile, started: list[NodePlan]) -> None:
    fresh = {plan.id for plan in started}
    for node in cluster.nodes:
        ready = partial(_ended_or_ready, node)
        if node.id in fresh and not processes.wait_until(ready, READY_TIMEOUT_S):
            raise UnhealthyError(
                f"node {node.id} is not ready after {READY_TIMEOUT_S:.0f} s: {readiness(node)}\n{_log_tail(node)}"
            )
        if has_ended(node):
            raise NodeEndedError(f"node {node.id} ended while starting\n{_log_tail(node)}")


def _ended_or_ready(node: RunningNode) -> bool:
    return has_ended(node) or readiness(node) == ""


def readiness(node: RunningNode) -> str:
    """Why a node is not ready; empty when it is."""
    try:
        with urllib.request.urlopen(f"http://{node.http}/readyz", timeout=2) as answer:
            return "" if answer.status == 200 else str(answer.read(), "utf-8")
    except urllib.error.HTTPError as error:
        return error.read().decode("utf-8", "replace").strip() or str(error)
    except (OSError, ValueError) as error:
        return str(error)


def health(node: RunningNode) -> dict[str, object] | None:
    """The node's /healthz, or None when it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{node.http}/healthz?verbose", timeout=2) as answer:
            loaded = json.load(answer)
    except urllib.error.HTTPError as error:
        loaded = json.load(error)
    except (OSError, ValueError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _log_tail(node: RunningNode) -> str:
    path = Path(node.data) / "node.log"
    lines = path.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:] if path.exists() else []
    return f"the end of {path}:\n" + "\n".join(f"  {line}" for line in lines)
