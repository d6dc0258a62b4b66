"""`rookery node` without a verb: one node in the foreground, as containers and `rookery up` run it."""

import argparse
import gc
import os
import sys

import uvloop

from rookery import __version__
from rookery.broker.lifecycle import RegistrationError
from rookery.broker.log.log_dir import LogDirRefused
from rookery.broker.metadata.follower import ForkedError
from rookery.broker.node.file_modes import keep_from_others
from rookery.broker.node.formatting import FormatError, add_users_of_environment, format_node
from rookery.broker.node.node import build_node
from rookery.broker.node.recorder import FlightRecorder
from rookery.broker.node.security_checks import asks_for_security
from rookery.broker.node.settings import load_settings, read_levels, root_level
from rookery.controller.raft.errors import MetadataDamagedError
from rookery.core import event_logging
from rookery.core.config import node as keys
from rookery.core.config.loading import Loaded
from rookery.core.config.options import HIDDEN, ConfigError, Settings
from rookery.core.disk import FolderInUseError
from rookery.core.event_logging import get_logger
from rookery.core.first_users import FirstUsersError
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
    FirstUsersError,
    RegistrationError,
    RecordError,
    UnsupportedLevelError,
)
"""Failures that the environment causes and the operator mends."""
_log = get_logger("node")


def run(arguments: argparse.Namespace) -> int:
    try:
        loaded = load_settings(arguments.config, os.environ, arguments.set)
    except ConfigError as error:
        print(f"rookery: {error}", file=sys.stderr)
        return EXIT_CONFIG
    settings = loaded.settings
    if arguments.format or arguments.add_scram:
        return _format(settings, arguments)
    levels, notes = read_levels(os.environ)
    level = root_level(os.environ, settings[keys.LOG_LEVEL])
    recorder = FlightRecorder(settings[keys.NODE_ID])
    event_logging.configure(style=settings[keys.LOG_STYLE], level=level, levels=levels, recorder=recorder)
    for warning in (*loaded.warnings, *notes):
        _log.warning("config.warning", reason=warning)
    sys.setswitchinterval(THREAD_SWITCH_S)
    if asks_for_security(settings):
        keep_from_others(settings)
    try:
        add_users_of_environment(settings, os.environ)
        return uvloop.run(_serve(loaded, recorder))
    except ConfigError as error:
        print(f"rookery: {error}", file=sys.stderr)
        return EXIT_CONFIG


def _format(settings: Settings, arguments: argparse.Namespace) -> int:
    try:
        if not arguments.format:
            raise ConfigError("--add-scram", HIDDEN, "users are added when a node is formatted: --format is needed")
        for line in format_node(settings, arguments.add_scram):
            print(line)
    except (ConfigError, FormatError, FolderInUseError, WrongFolderError, OSError) as error:
        print(f"rookery: {error}", file=sys.stderr)
        return EXIT_CONFIG
    return 0


async def _serve(loaded: Loaded, recorder: FlightRecorder) -> int:
    """Build and run; whatever ends the node is reported in one line, with a traceback only where it is a bug."""
    try:
        node = await build_node(loaded.settings, recorder=recorder)
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
        recorder.flush()
        return EXIT_FAILED
    _log.info("node.stopped", node=node.node_id)
    recorder.flush()
    return 0


def causes(error: Exception) -> list[Exception]:
    """The failures inside a group, however deep."""
    if not isinstance(error, ExceptionGroup):
        return [error]
    return [cause for each in error.exceptions for cause in causes(each)]
