"""`rookery down`: stop a cluster that `rookery up` started."""

import argparse
from pathlib import Path
from typing import Any

from rookery.client.cli.up import DEFAULT_FOLDER
from rookery.client.local import launcher


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("down", help="stop the cluster on this machine")
    parser.add_argument("--data", type=Path, default=Path(DEFAULT_FOLDER), help="folder of the cluster")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    launcher.bring_down(arguments.data, print)
    return 0
