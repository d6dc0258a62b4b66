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
from typing import Any

from rookery.client.errors import CliError, UnhealthyError, UsageError
from rookery.client.local import cluster_file, processes
from rookery.client.local.cluster_file import SECURITY_FOLDER, ClusterFile, RunningNode
from rookery.client.local.security import LIBRDKAFKA_PROPERTIES, LocalSecurity, write_private
from rookery.client.local.shape import HOST, HTTP_STEP, NODES_MAX, NodePlan, Shape, controllers_for
from rookery.core.config.loading import load
from rookery.core.config.node import TABLE
from rookery.core.config.options import ConfigError
from rookery.core.config.properties import properties_text, read_properties
from rookery.core.ids import id_text, new_id

PROPERTIES = "node.properties"
SECRET_OPTIONS = "secret-options.properties"
"""What `--set` gave of passwords, keys and tokens: they are not in the file of the cluster, which others may read."""
PAGE_S = 2.0
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 40.0
PORT_RELEASE_S = 1.0
"""A node that was just killed may hold its ports for a moment."""
LOG_LINES_SHOWN = 15
PORT_MAX = 65535
DEFAULT_NODES = 3
DEFAULT_PORT = 9092
Report = Callable[[str], None]
"""Where sentences for the user go."""


@dataclass(frozen=True, slots=True)
class UpRequest:
    """What the user asked `up` for. Without a number of nodes or a port an existing cluster keeps its own, and a new
    one gets the defaults; port 0 finds free ones."""

    folder: Path
    nodes: int | None
    port: int | None
    overrides: Mapping[str, str]
    ephemeral: bool
    secure: bool = False
    only: frozenset[int] = frozenset()
    """The nodes of an existing cluster to start; empty: all."""


class NodeEndedError(UnhealthyError):
    """A node ended while starting."""


def bring_up(request: UpRequest, report: Report) -> ClusterFile:
    """Make the cluster of `request.folder` run as asked, and return when every node is ready."""
    folder = request.folder.resolve()
    before = existing(folder)
    nodes, port = _nodes_and_port(request, before)
    try:
        return _bring_up(request, folder, before, nodes, port, report)
    except OSError as error:
        raise CliError(
            f"the cluster cannot be kept in {folder}: {error.strerror or error}"
            + (f" ({error.filename})" if error.filename and error.filename != str(folder) else "")
            + ". Choose another folder: rookery up --data DIR"
        ) from error


def _nodes_and_port(request: UpRequest, before: ClusterFile | None) -> tuple[int, int]:
    nodes = request.nodes if request.nodes is not None else len(before.nodes) if before else DEFAULT_NODES
    port = request.port if request.port is not None else before.port() if before else DEFAULT_PORT
    if not 1 <= nodes <= NODES_MAX:
        raise UsageError(f"--nodes {nodes}: from 1 to {NODES_MAX} nodes can run on one machine")
    last = PORT_MAX - HTTP_STEP - nodes + 1
    if not 0 <= port <= last:
        raise UsageError(
            f"--port {port}: the first of {nodes} node(s) can be on port 1 to {last} (0 finds free ones); "
            f"the ports up to {HTTP_STEP + nodes - 1} above it are used, too"
        )
    return nodes, port


def _bring_up(
    request: UpRequest, folder: Path, before: ClusterFile | None, nodes: int, port: int, report: Report
) -> ClusterFile:
    secure = _secure(request, before)
    folder.mkdir(parents=True, exist_ok=True)
    shape = _shape(folder, nodes, port, before)
    security = LocalSecurity(folder) if secure else None
    known = {node.id: node for node in before.nodes} if before else {}
    living = {node_id for node_id, node in known.items() if processes.is_running(node.pid, node.started)}
    dead = [plan for plan in shape.plans() if plan.id not in living and (not request.only or plan.id in request.only)]
    overrides = {**(before.overrides if before else {}), **request.overrides}
    _check_overrides(shape, overrides, request.overrides, report)
    _refuse_busy_ports(dead, asked=port)
    if security is not None:
        security.prepare(shape.plans(), shape.bootstrap, new=before is None)
    running = dict(known)
    try:
        for plan in dead:
            running[plan.id] = _start(shape, plan, overrides, security)
    finally:  # also when interrupted: what was started can be stopped by what reads the file
        cluster = ClusterFile(
            cluster_id=shape.cluster_id,
            bootstrap=shape.bootstrap,
            nodes=tuple(running[node_id] for node_id in sorted(running)),
            controllers=shape.controllers,
            overrides=overrides,
            ephemeral=request.ephemeral or (before.ephemeral if before else False),
            secure=secure,
        )
        _store(folder, cluster)
    if living:
        report(f"kept {len(living)} running node(s), started {len(dead)}")
    try:
        _wait_ready(cluster, dead, living)
    except NodeEndedError:  # perhaps because of what was set: the next try must not inherit it
        _store(folder, replace(cluster, overrides=before.overrides if before else {}))
        raise
    return cluster


def _secure(request: UpRequest, before: ClusterFile | None) -> bool:
    """A cluster stays as it was made."""
    if before is None:
        return request.secure
    if request.secure and not before.secure:
        raise UsageError(
            f"--secure: the cluster in {request.folder} is a plain one. docs/security.md leads from a plain cluster to "
            "a secure one; for a new one use another --data"
        )
    return before.secure


def _check_overrides(shape: Shape, overrides: Mapping[str, str], new: Mapping[str, str], report: Report) -> None:
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
        report(f"note: {warning}")


def bring_down(folder: Path, report: Report) -> None:
    """Stop every node in order, the last started first, and wait for each."""
    cluster = existing(folder.resolve())
    if cluster is None:
        raise CliError(f"there is no cluster in {folder}: {folder / cluster_file.NAME} does not exist")
    stopped = sum(stop_node(node, report) for node in reversed(cluster.nodes))
    report(f"stopped {stopped} node(s)" if stopped else "no node was running")
    if cluster.ephemeral:
        for node in cluster.nodes:
            shutil.rmtree(node.data, ignore_errors=True)
        (folder.resolve() / cluster_file.NAME).unlink()
        (folder.resolve() / SECRET_OPTIONS).unlink(missing_ok=True)
        report("removed the data, as --ephemeral asked")


def start_node(folder: Path, number: int) -> ClusterFile:
    """Start one node of a cluster that was started before, and leave the others as they are."""
    folder = folder.resolve()
    before = existing(folder)
    if before is None:
        raise CliError(f"there is no cluster in {folder}: {folder / cluster_file.NAME} does not exist")
    shape = Shape(before.cluster_id, folder, before.port(), len(before.nodes), before.controllers)
    plan = shape.plan(number)
    _refuse_busy_ports([plan], asked=before.port())
    node = _start(shape, plan, before.overrides, LocalSecurity(folder) if before.secure else None)
    nodes = tuple(node if each.id == number else each for each in before.nodes)
    cluster = replace(before, nodes=nodes)
    _store(folder, cluster)
    _wait_ready(replace(cluster, nodes=(node,)), [plan], set())
    return cluster


def remove(folder: Path, report: Report) -> None:
    """Stop every node and remove what `bring_up` made in the folder; anything else in it stays."""
    folder = folder.resolve()
    cluster = existing(folder)
    bring_down(folder, report)
    if cluster is None or cluster.ephemeral:
        return
    for node in cluster.nodes:
        shutil.rmtree(node.data, ignore_errors=True)
    shutil.rmtree(folder / SECURITY_FOLDER, ignore_errors=True)
    for name in (cluster_file.NAME, cluster_file.CLIENT_PROPERTIES, LIBRDKAFKA_PROPERTIES, SECRET_OPTIONS):
        (folder / name).unlink(missing_ok=True)
    report("removed the data")


def stop_node(node: RunningNode, report: Report) -> bool:
    """Controlled shutdown of one node; killed only when it does not end in time."""
    if not processes.send_signal(node.pid, node.started, signal.SIGTERM):
        return False
    if not processes.wait_until(lambda: has_ended(node), STOP_TIMEOUT_S):
        report(
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
    """The cluster of a folder, from its files, running or not."""
    path = folder / SECRET_OPTIONS
    try:
        cluster = cluster_file.read(folder)
        if cluster is None or not path.exists():
            return cluster
        return replace(cluster, overrides={**cluster.overrides, **read_properties(path.read_text(), str(path))})
    except cluster_file.DamagedClusterFileError as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(f"{folder} is no folder of a cluster: {error.strerror or error}") from error


def _store(folder: Path, cluster: ClusterFile) -> None:
    secret = {key: text for key, text in cluster.overrides.items() if _is_secret(key)}
    if secret:
        write_private(folder / SECRET_OPTIONS, properties_text(secret))
    others = {key: text for key, text in cluster.overrides.items() if key not in secret}
    cluster_file.write(folder, replace(cluster, overrides=others))
    if not secret:
        (folder / SECRET_OPTIONS).unlink(missing_ok=True)


def _is_secret(key: str) -> bool:
    return key in TABLE and TABLE[key].sensitive


def _shape(folder: Path, nodes: int, port: int, before: ClusterFile | None) -> Shape:
    """The shape asked for, checked against the one that exists."""
    if before is None:
        return Shape(id_text(new_id()), folder, port or _free_block(nodes), nodes, controllers_for(nodes))
    if nodes < len(before.nodes):
        raise UsageError(
            f"--nodes {nodes}: the cluster in {folder} has {len(before.nodes)} nodes, and nodes hold data; "
            "moving it off a node first is not done by this command"
        )
    if port not in (0, before.port()):
        raise UsageError(
            f"--port {port}: the cluster in {folder} is on port {before.port()}; "
            "its nodes know each other by these ports. Use another --data for another cluster"
        )
    return Shape(before.cluster_id, folder, before.port(), nodes, before.controllers)


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


def _start(
    shape: Shape, plan: NodePlan, overrides: Mapping[str, str], security: LocalSecurity | None
) -> RunningNode:
    plan.data.mkdir(parents=True, exist_ok=True)
    if security is not None:
        plan.data.chmod(0o700)
        write_private(plan.properties, shape.properties(plan, overrides, security.node_properties(plan)))
    elif any(map(_is_secret, overrides)):
        write_private(plan.properties, shape.properties(plan, overrides))
    else:
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


def _wait_ready(cluster: ClusterFile, started: list[NodePlan], kept: set[int]) -> None:
    fresh = {plan.id for plan in started}
    for node in (node for node in cluster.nodes if node.id in fresh | kept):
        ready = partial(_ended_or_ready, node)
        if node.id in fresh and not processes.wait_until(ready, READY_TIMEOUT_S):
            raise UnhealthyError(
                f"node {node.id} is not ready after {READY_TIMEOUT_S:.0f} s: {readiness(node)}\n{_log_tail(node)}"
            )
        if has_ended(node):
            raise NodeEndedError(f"node {node.id} ended while starting\n{_log_tail(node)}")


def _ended_or_ready(node: RunningNode) -> bool:
    return has_ended(node) or readiness(node) == ""


def _page(node: RunningNode, target: str) -> Any:
    """A page of a node of this machine: with its certificate, which need not be verified here, and its token."""
    path = Path(node.data) / PROPERTIES
    options = read_properties(path.read_text(), str(path)) if path.exists() else {}
    headers = {"Authorization": f"Bearer {token}"} if (token := options.get("rookery.http.token")) else {}
    if not options.get("rookery.http.ssl.keystore.location"):
        asked = urllib.request.Request(f"http://{node.http}{target}", headers=headers)
        return urllib.request.urlopen(asked, timeout=PAGE_S)
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    asked = urllib.request.Request(f"https://{node.http}{target}", headers=headers)
    return urllib.request.urlopen(asked, timeout=PAGE_S, context=context)


def readiness(node: RunningNode) -> str:
    """Why a node is not ready; empty when it is."""
    try:
        with _page(node, "/readyz") as answer:
            return "" if answer.status == 200 else str(answer.read(), "utf-8")
    except urllib.error.HTTPError as error:
        return error.read().decode("utf-8", "replace").strip() or str(error)
    except (OSError, ValueError) as error:
        return str(error)


def health(node: RunningNode) -> dict[str, object] | None:
    """The node's /healthz, or None when it does not answer."""
    try:
        with _page(node, "/healthz?verbose") as answer:
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
