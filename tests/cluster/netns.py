"""A small network of its own for tests: one namespace per node, joined by a bridge in another namespace.

Nothing outside these namespaces is touched. Packets are dropped silently, as by a cable that was cut: neither
side is told that the connection is gone.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests import needs

SUBNET = "10.199.0"


class Network:
    def __init__(self, nodes: int) -> None:
        needs.root()
        self._ip = needs.command("ip", "network namespaces")
        needs.command("iptables", "dropping packets")
        self._names = [f"rk{os.getpid()}-{number}" for number in range(nodes + 1)]

    def build(self) -> None:
        switch = self._names[0]
        self._run("netns", "add", switch)
        self._run("-n", switch, "link", "add", "bridge", "type", "bridge")
        self._run("-n", switch, "link", "set", "bridge", "up")
        for number, name in enumerate(self._names[1:], 1):
            self._run("netns", "add", name)
            self._run("-n", name, "link", "set", "lo", "up")
            self._run("-n", switch, "link", "add", f"to{number}", "type", "veth", "peer", "eth0", "netns", name)
            self._run("-n", switch, "link", "set", f"to{number}", "master", "bridge", "up")
            self._run("-n", name, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
            self._run("-n", name, "link", "set", "eth0", "up")

    def close(self) -> None:
        for name in self._names:
            subprocess.run([self._ip, "netns", "delete", name], capture_output=True, check=False)

    def address(self, number: int) -> str:
        return f"{SUBNET}.{number}"

    def inside(self, number: int) -> tuple[str, ...]:
        """What to put before a command so that it runs on that node."""
        return (self._ip, "netns", "exec", self._names[number])

    def cut(self, number: int, *, incoming: bool = True, outgoing: bool = True) -> None:
        """Drop what the node gets, what it sends, or both."""
        for chain, wanted in (("INPUT", incoming), ("OUTPUT", outgoing)):
            if wanted:
                self._iptables(number, "-A", chain, "-s", f"{SUBNET}.0/24", "-j", "DROP")

    def heal(self) -> None:
        for number in range(1, len(self._names)):
            self._iptables(number, "-F")

    def _iptables(self, number: int, *arguments: str) -> None:
        subprocess.run([*self.inside(number), "iptables", "-w", *arguments], check=True, capture_output=True)

    def _run(self, *arguments: str) -> None:
        subprocess.run([self._ip, *arguments], check=True, capture_output=True)


@contextmanager
def network(nodes: int) -> Iterator[Network]:
    made = Network(nodes)
    try:
        made.build()
        yield made
    finally:
        made.close()
