"""`rookery up`: a cluster on this machine, each node a process of its own, or all of them in this one."""

import argparse
import importlib
import shutil
import signal
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

from rookery.client.cli import finding
from rookery.client.cli.asking import confirm
from rookery.client.errors import CliError, NotFoundError, UnhealthyError, UsageError
from rookery.client.local import launcher
from rookery.client.local.cluster_file import CLIENT_PROPERTIES, ClusterFile, RunningNode
from rookery.client.local.security import LIBRDKAFKA_PROPERTIES
from rookery.core.config.options import ConfigError
from rookery.core.config.properties import read_overrides

DEFAULT_FOLDER = finding.FOLDER
STATUS_INTERVAL_S = 1.0
FOLLOW_S = 0.2


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("up", help="start a cluster on this machine; logs, stop, restart, reset")
    nodes, port = launcher.DEFAULT_NODES, launcher.DEFAULT_PORT
    parser.add_argument("--nodes", type=int, help=f"how many nodes ({nodes}, or as many as there are)")
    parser.add_argument("--port", type=int, help=f"first Kafka port ({port}; 0 finds free ones)")
    parser.add_argument("--data", type=Path, default=None, help=f"folder of the cluster (./{DEFAULT_FOLDER})")
    parser.add_argument("--detach", action="store_true", help="return when every node is ready")
    parser.add_argument(
        "--secure", action="store_true", help="TLS and SCRAM: makes certificates, a user `admin` and client.properties"
    )
    parser.add_argument("--ephemeral", action="store_true", help="remove the data when the cluster stops")
    parser.add_argument(
        "--in-process", action="store_true",
        help="for a test suite: all nodes in this process, data in memory unless --data is given, free ports unless "
        "--port is; prints the bootstrap addresses and stops with its parent",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="an option for all nodes; broker.rack=a,b,c gives them racks in turn",
    )  # fmt: skip
    parser.set_defaults(run=run)
    actions = parser.add_subparsers(dest="action", metavar="action", required=False)
    for name, text, action in (
        ("logs", "show the end of a node's log", _logs),
        ("stop", "stop one node (controlled shutdown)", _stop_one),
        ("restart", "stop one node and start it again on its data", _restart_one),
    ):
        verb = actions.add_parser(name, help=text)
        verb.add_argument("node", type=int)
        verb.add_argument("--data", type=Path, default=argparse.SUPPRESS, help="folder of the cluster")
        if name == "logs":
            verb.add_argument("-n", "--lines", type=int, default=50, help="how many (50)")
            verb.add_argument("-f", "--follow", action="store_true", help="go on with each line")
        verb.set_defaults(run=action)
    reset = actions.add_parser("reset", help="stop the cluster and remove its data")
    reset.add_argument("--data", type=Path, default=argparse.SUPPRESS, help="folder of the cluster")
    reset.add_argument("-y", "--yes", action="store_true", help="do not ask")
    reset.set_defaults(run=_reset)


def run(arguments: argparse.Namespace) -> int:
    if arguments.in_process:
        return _run_in_process(arguments)
    temporary = None
    if arguments.data is None and arguments.ephemeral and not arguments.detach:
        temporary = tempfile.mkdtemp(prefix="rookery-")
    folder = Path(temporary) if temporary else arguments.data or Path(DEFAULT_FOLDER)
    begun = time.monotonic()
    stays = arguments.detach
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both ways to stop are one: KeyboardInterrupt
    try:
        cluster = launcher.bring_up(_request(arguments, folder), print)
        print(banner(cluster, folder, time.monotonic() - begun), flush=True)
        if not arguments.detach:
            _stay(cluster)
    except KeyboardInterrupt:
        if arguments.detach:
            raise
    except CliError as error:
        stays = stays or not isinstance(error, UnhealthyError)  # refused, nothing was started: what runs goes on
        raise
    finally:
        if not stays:
            _stop(folder)
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)
    return 0


def _run_in_process(arguments: argparse.Namespace) -> int:
    """The testing kit puts nodes together, and is found by name."""
    for option in ("detach", "secure"):
        if getattr(arguments, option):
            raise UsageError(f"--{option} needs nodes that are processes of their own: leave out --in-process")
    if arguments.ephemeral and arguments.data is not None:
        raise UsageError("--ephemeral with --in-process: leave out --data, and the data is in memory")
    nodes = launcher.DEFAULT_NODES if arguments.nodes is None else arguments.nodes
    serve = importlib.import_module("rookery.testing.serving").serve
    serve(nodes, _overrides(arguments), arguments.data, port=arguments.port or 0)
    return 0


def _overrides(arguments: argparse.Namespace) -> dict[str, str]:
    try:
        return read_overrides(arguments.set)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _request(arguments: argparse.Namespace, folder: Path) -> launcher.UpRequest:
    return launcher.UpRequest(
        folder, arguments.nodes, arguments.port, _overrides(arguments), arguments.ephemeral, arguments.secure
    )


def banner(cluster: ClusterFile, folder: Path, seconds: float) -> str:
    """What a person does next."""
    here = folder == Path(DEFAULT_FOLDER)
    config = f" --command-config {folder / CLIENT_PROPERTIES}" if cluster.secure else ""
    at = "" if here else config or f" --bootstrap {cluster.bootstrap}"
    where = "" if here else f" --data {folder}"
    kept = "removed when the cluster stops" if cluster.ephemeral else "kept"
    return "\n".join(
        [
            f"{len(cluster.nodes)} node(s) up in {seconds:.1f} s, bootstrap {cluster.bootstrap}",
            *(
                [f"clients need {folder / CLIENT_PROPERTIES} or {folder / LIBRDKAFKA_PROPERTIES}: SASL_SSL, user admin"]
                if cluster.secure
                else []
            ),
            "try:",
            f"  rookery topic create hello --partitions 3{at}",
            f"  echo 'first record' | rookery produce hello{at}",
            f"  rookery consume hello --count 1{at}",
            f"  rookery cluster status{at}",
            f"  kill -9 {cluster.nodes[-1].pid}          # node {cluster.nodes[-1].id}; `rookery up` starts it again",
            f"metrics: http://{cluster.nodes[0].http}/metrics",
            f"data: {folder.resolve()} ({kept})   stop: rookery down{where}",
        ]
    )


def _stay(cluster: ClusterFile) -> None:
    """Show status until every node has ended or somebody interrupts."""
    shown = ""
    while not all(launcher.has_ended(node) for node in cluster.nodes):
        status = status_line(cluster)
        if status != shown:
            print(time.strftime("%H:%M:%S"), status, flush=True)
            shown = status
        time.sleep(STATUS_INTERVAL_S)
    print("every node has ended", flush=True)


def _stop(folder: Path) -> None:
    """Stop all nodes in order; a second interrupt does not leave some behind."""
    if launcher.existing(folder) is None:
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    print("stopping (controlled shutdown) ...", flush=True)
    launcher.bring_down(folder, print)


def status_line(cluster: ClusterFile) -> str:
    words = []
    for node in cluster.nodes:
        state = "down" if launcher.has_ended(node) else "starting" if launcher.readiness(node) else "ready"
        words.append(f"node {node.id} {state}")
    return ", ".join(words)


# --- one node of a cluster that was started -----------------------------------------------------------------


def _found(arguments: argparse.Namespace) -> tuple[Path, ClusterFile]:
    folder = arguments.data or Path(DEFAULT_FOLDER)
    cluster = launcher.existing(folder.resolve())
    if cluster is None:
        raise NotFoundError(f"there is no cluster in {folder}; `rookery up` starts one, --data names another folder")
    return folder, cluster


def _node(arguments: argparse.Namespace) -> tuple[Path, RunningNode]:
    folder, cluster = _found(arguments)
    for node in cluster.nodes:
        if node.id == arguments.node:
            return folder, node
    there = ", ".join(str(node.id) for node in cluster.nodes)
    raise NotFoundError(f"the cluster in {folder} has no node {arguments.node}; it has {there}")


def _logs(arguments: argparse.Namespace) -> int:
    _, node = _node(arguments)
    path = Path(node.data) / "node.log"
    if not path.exists():
        raise NotFoundError(f"{path} is not there: node {node.id} was never started")
    with path.open(errors="replace") as log:
        for line in deque(log, maxlen=max(arguments.lines, 0)):
            print(line, end="")
        while arguments.follow:
            line = log.readline()
            if line:
                print(line, end="", flush=True)
            elif launcher.has_ended(node):
                break
            else:
                time.sleep(FOLLOW_S)
    return 0


def _stop_one(arguments: argparse.Namespace) -> int:
    _, node = _node(arguments)
    print(f"stopped node {node.id}" if launcher.stop_node(node, print) else f"node {node.id} was not running")
    return 0


def _restart_one(arguments: argparse.Namespace) -> int:
    folder, node = _node(arguments)
    launcher.stop_node(node, print)
    cluster = launcher.start_node(folder, node.id)
    again = next(each for each in cluster.nodes if each.id == node.id)
    print(f"node {node.id} is ready again, pid {again.pid}")
    return 0


def _reset(arguments: argparse.Namespace) -> int:
    folder, cluster = _found(arguments)
    confirm(f"Stop {len(cluster.nodes)} node(s) and remove the data in {folder.resolve()}?", yes=arguments.yes)
    launcher.remove(folder, print)
    return 0
