"""`rookery node`: one node in the foreground, as containers and `rookery up` run it."""

import argparse
import gc
import os
import sys
from pathlib import Path
from typing import Any

import uvloop

from rookery import __version__
from rookery.broker.lifecycle import RegistrationError
from rookery.broker.log.log_dir import LogDirRefused
from rookery.broker.metadata.follower import ForkedError
from rookery.broker.node.node import build_node
from rookery.broker.node.settings import load_settings, read_levels, root_level
from rookery.controller.raft.errors import MetadataDamagedError
from rookery.core import event_logging
from rookery.core.config import node as keys
from rookery.core.config.loading import Loaded
from rookery.core.config.options import ConfigError
from rookery.core.disk import FolderInUseError
from rookery.core.event_logging import get_logger
from rookery.core.log import LogDirFailed
from rookery.core.log.ownership import WrongFolderError
from rookery.core.metadata.codec import RecordError
from rookery.core.metadata.features import UnsupportedLevelError

EXIT_FAILED = 1
EXIT_CONFIG = 2
THREAD_SWITCH_S = 0.0005
"""How long a thread that looks at records, compacts or recovers may keep the interpreter while the loop wants it.
Python's own 5 ms, paid at every event, would make tens of milliseconds of a request."""
OPERATORS_BUSINESS = (
    OSError,
    FolderInUseError,
    ForkedError,
    LogDirFailed,
    LogDirRefused,
    WrongFolderError,
    MetadataDamagedError,
    RegistrationError,
    RecordError,
    UnsupportedLevelError,
)
"""Failures that the environment causes and the operator mends."""
_log = get_logger("node")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("node", help="run one node in the foreground")
    parser.add_argument("--config", type=Path, help="a .properties file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        loaded = load_settings(arguments.config, os.environ, arguments.set)
    except ConfigError as error:
        print(f"rookery: {error}", file=sys.stderr)
        return EXIT_CONFIG
    settings = loaded.settings
    levels, notes = read_levels(os.environ)
    level = root_level(os.environ, settings[keys.LOG_LEVEL])
    event_logging.configure(style=settings[keys.LOG_STYLE], level=level, levels=levels)
    for warning in (*loaded.warnings, *notes):
        _log.warning("config.warning", reason=warning)
    sys.setswitchinterval(THREAD_SWITCH_S)
    try:
        return uvloop.run(_serve(loaded))
    except ConfigError as error:
        print(f"rookery: {error}", file=sys.stderr)
        return EXIT_CONFIG


async def _serve(loaded: Loaded) -> int:
    """Build and run; whatever ends the node is told in one line, with a traceback only where it is a bug."""
    try:
        node = await build_node(loaded.settings)
        _log.info("node.starting", node=node.node_id, version=__version__, pid=os.getpid())
        gc.freeze()  # what is loaded now lives as long as the process
        await node.run()
    except ConfigError:
        raise
    except Exception as error:
        for cause in causes(error):
            if isinstance(cause, OPERATORS_BUSINESS):
                _log.error("node.failed", reason=str(cause))
            else:
                _log.exception("node.failed", cause)
        return EXIT_FAILED
    _log.info("node.stopped", node=node.node_id)
    return 0


def causes(error: Exception) -> list[Exception]:
    """The failures inside a group, however deep."""
    if not isinstance(error, ExceptionGroup):
        return [error]
    return [cause for each in error.exceptions for cause in causes(each)]
