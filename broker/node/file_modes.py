"""Files with keys of users are for their owner alone, also those that were made before the node was secured."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rookery.core import first_users
from rookery.core.config import node as keys
from rookery.core.config.node import metadata_log_dir
from rookery.core.config.options import Settings
from rookery.core.event_logging import get_logger
from rookery.core.metadata_log import METADATA_LOG

FOR_OTHERS = 0o077
_log = get_logger("node")


def keep_from_others(settings: Settings) -> None:
    """What this process makes from now on, and what is there, only its owner can read. What cannot be changed is warned
    of."""
    os.umask(FOR_OTHERS)
    for path in _kept(settings):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & FOR_OTHERS:
                path.chmod(mode & ~FOR_OTHERS)
        except FileNotFoundError:
            continue
        except OSError as error:
            todo = f"chmod go-rwx: others than its owner may read it ({error.strerror})"
            _log.warning("files.readable", file=str(path), todo=todo)


def _kept(settings: Settings) -> Iterator[Path]:
    metadata = Path(metadata_log_dir(settings))
    yield from dict.fromkeys((*map(Path, settings[keys.LOG_DIRS]), metadata))
    yield metadata / first_users.FILE
    yield metadata / METADATA_LOG
    yield from (metadata / METADATA_LOG).rglob("*")
