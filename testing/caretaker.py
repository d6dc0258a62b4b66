"""Ends the processes of a cluster when the process that started them ends without notice, as by kill -9."""

import shutil
import subprocess
import sys
from pathlib import Path

TEMPORARY = "temporary"
RELEASED = b"released"
RELEASE_S = 30.0


class Caretaker:
    """A process of its own. It waits for the end of its standard input, which comes with the end of this process."""

    def __init__(self, folder: Path, *, temporary: bool) -> None:
        """A `temporary` folder is deleted, too."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder.resolve()), *([TEMPORARY] if temporary else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the tests, which then end the cluster themselves
        )

    def release(self) -> None:
        """The cluster has ended in order: there is nothing left to do."""
        self._process.communicate(RELEASED, RELEASE_S)


def main(folder: Path, *, temporary: bool) -> None:
    if sys.stdin.buffer.read() == RELEASED:
        return
    from rookery.testing.node_processes import NodeProcesses  # not above: it is rarely needed, and large

    NodeProcesses(folder, 0, {}).kill_all()
    if temporary:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), temporary=TEMPORARY in sys.argv[2:])
