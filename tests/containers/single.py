"""One container by itself, and whether it can be used."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.cluster.local import wait_for
from tests.containers.cluster import fetch
from tests.containers.image import run
from tests.ports import free_ports

HOST = "127.0.0.1"


@contextmanager
def single_node(
    image: str, name: str, variables: Mapping[str, str], publish: Sequence[int] = ()
) -> Iterator[tuple[str, str]]:
    """(bootstrap, address of the HTTP port) of a node, gone afterwards with its data.

    What it advertises as 127.0.0.1:9092 is moved to a free port of this machine.
    """
    kafka, http = free_ports(2)
    environment = {key: value.replace(f"{HOST}:9092", f"{HOST}:{kafka}") for key, value in variables.items()}
    settings = [word for key, value in environment.items() for word in ("--env", f"{key}={value}")]
    ports = ["--publish", f"{kafka}:{kafka}", "--publish", f"{http}:8080"]
    ports += [word for port in publish for word in ("--publish", f"{port}:{port}")]
    remove(name)
    run("docker", "run", "--detach", "--name", name, "--hostname", "kafka1", *ports, *settings, image)
    try:
        wait_ready(f"{HOST}:{http}")
        yield f"{HOST}:{kafka}", f"{HOST}:{http}"
    except BaseException:
        print("\n".join(said(name).splitlines()[-60:]))
        raise
    finally:
        remove(name)


def remove(name: str) -> None:
    """What an earlier run left behind, too."""
    if run("docker", "ps", "--all", "--quiet", "--filter", f"name=^{name}$"):
        run("docker", "rm", "--force", "--volumes", name)


def said(name: str) -> str:
    """Everything a container wrote, to either stream."""
    done = subprocess.run(["docker", "logs", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    return str(done.stdout, "utf-8")


def wait_ready(http: str) -> None:
    wait_for(lambda: _ready(http), "the node to be ready", 90)


def _ready(http: str) -> bool:
    try:
        return fetch(f"http://{http}/readyz") == "ok\n"
    except OSError:
        return False
