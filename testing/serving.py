"""A cluster for a test suite in another language: `python -m rookery.testing` and `rookery up --in-process`."""

import os
import select
import signal
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from rookery.client.errors import CliError
from rookery.testing.cluster import Cluster
from rookery.testing.embedded import NodeFailedError

LOOK_S = 0.2
READ_BYTES = 4096


def serve(
    nodes: int, config: Mapping[str, str], data: Path | None = None, *, port: int = 0, processes: bool = False
) -> None:
    """Print the bootstrap addresses on one line, and stay until the process that started this is gone: its process
    ended, the pipe that is standard input was closed, or SIGTERM or SIGINT came."""
    parent = os.getppid()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Cluster(nodes, config=config, data=data, processes=processes, port=port) as cluster:
            print(cluster.bootstrap, flush=True)
            _stay(parent)
    except KeyboardInterrupt:
        pass
    except (NodeFailedError, ValueError, OSError) as error:
        raise CliError(str(error)) from error


def _stay(parent: int) -> None:
    listening = _is_pipe(sys.stdin.fileno()) if sys.stdin is not None else False
    while os.getppid() == parent:
        ready, _, _ = select.select([sys.stdin] if listening else [], [], [], LOOK_S)
        if ready and not os.read(sys.stdin.fileno(), READ_BYTES):
            return


def _is_pipe(descriptor: int) -> bool:
    """Whether its end shows that the other process is gone. That of a terminal or of /dev/null does not."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
