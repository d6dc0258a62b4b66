"""`rookery up`: a cluster on this machine, each node a process of its own."""

import argparse
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from rookery.client.cli import finding
from rookery.client.errors import CliError, UnhealthyError, UsageError
from rookery.client.local import launcher
from rookery.client.local.cluster_file import ClusterFile
from rookery.core.config.loading import read_overrides
from rookery.core.config.options import ConfigError

DEFAULT_FOLDER = finding.FOLDER
STATUS_INTERVAL_S = 1.0


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("up", help="start a cluster on this machine")
    nodes, port = launcher.DEFAULT_NODES, launcher.DEFAULT_PORT
    parser.add_argument("--nodes", type=int, help=f"how many nodes ({nodes}, or as many as there are)")
    parser.add_argument("--port", type=int, help=f"first Kafka port ({port}; 0 finds free ones)")
    parser.add_argument("--data", type=Path, default=None, help=f"folder of the cluster (./{DEFAULT_FOLDER})")
    parser.add_argument("--detach", action="store_true", help="return when every node is ready")
    parser.add_argument("--ephemeral", action="store_true", help="remove the data when the cluster stops")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="an option for all nodes; broker.rack=a,b,c gives them racks in turn",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
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


def _request(arguments: argparse.Namespace, folder: Path) -> launcher.UpRequest:
    try:
        overrides = read_overrides(arguments.set)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    return launcher.UpRequest(folder, arguments.nodes, arguments.port, overrides, arguments.ephemeral)


def banner(cluster: ClusterFile, folder: Path, seconds: float) -> str:
    """What a person does next."""
    here = folder == Path(DEFAULT_FOLDER)
    at = "" if here else f" --bootstrap {cluster.bootstrap}"
    where = "" if here else f" --data {folder}"
    kept = "removed when the cluster stops" if cluster.ephemeral else "kept"
    return "\n".join(
        [
            f"{len(cluster.nodes)} node(s) up in {seconds:.1f} s, bootstrap {cluster.bootstrap}",
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
