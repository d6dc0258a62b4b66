"""A node started by a test itself, in other circumstances than `rookery up` gives it."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rookery.core.config.properties import properties_text
from tests.cluster.local import wait_for
from tests.ports import free_ports

START = "import sys; from rookery.client.cli.__main__ import main; sys.exit(main(['node', '--config', {config!r}]))"


@contextmanager
def node_process(config: Path, *, first: str = "", within: Sequence[str] = ()) -> Iterator[int]:
    """A node by its file of properties, when it is ready: its process id. `first` is Python that its process runs
    before anything else, `within` a command that runs the process as its own."""
    log = config.with_suffix(".log")
    words = [*within, sys.executable, "-c", f"{first}\n{START.format(config=str(config))}"]
    with log.open("w") as written, subprocess.Popen(words, stdout=written, stderr=subprocess.STDOUT) as process:

        def is_ready() -> bool:
            assert process.poll() is None, f"the node ended:\n{log.read_text()}"
            return "node.ready" in log.read_text()

        try:
            wait_for(is_ready, "the node to be ready")
            yield process.pid
        finally:
            process.kill()


def lone_properties(folder: Path, **options: str) -> Path:
    """The file of a node that is its own quorum; its listeners are plain unless `options` name others."""
    http, kafka, control = free_ports(3)
    values = {
        "listeners": f"PLAINTEXT://127.0.0.1:{kafka},CONTROLLER://127.0.0.1:{control}",
        "log.dirs": str(folder / "data"),
        "rookery.http.listener": f"127.0.0.1:{http}",
        "rookery.allow.plaintext.controller": "true",
        **options,
    }
    config = folder / "node.properties"
    config.write_text(properties_text(values))
    return config
