"""A small network of its own for tests: one namespace per node, joined by a bridge in another namespace.

Nothing outside these namespaces is touched. Packets are dropped silently, as by a cable that was cut: neither
side is told that the connection is gone.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests import needs

SUBNET = "10.199.0"
_NEW_NETWORK = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


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

    @contextmanager
    def here(self, number: int) -> Iterator[None]:
        """Be on that node: this thread, and whatever it starts meanwhile, threads and processes alike."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        inside = os.open(f"/run/netns/{self._names[number]}", os.O_RDONLY)
        try:
            _enter(inside)
            yield
        finally:
            _enter(before)
            os.close(inside)
            os.close(before)

    def cut(self, number: int, *, incoming: bool = True, outgoing: bool = True) -> None:
        """Drop what the node gets, what it sends, or both; what it tells itself still arrives."""
        if incoming:
            self._iptables(number, "-A", "INPUT", "-i", "eth0", "-j", "DROP")
        if outgoing:
            self._iptables(number, "-A", "OUTPUT", "-o", "eth0", "-j", "DROP")

    def part(self, number: int, others: Iterable[int]) -> None:
        """Drop what the node and the others send to each other."""
        for other in others:
            self._iptables(number, "-A", "INPUT", "-s", self.address(other), "-j", "DROP")
            self._iptables(number, "-A", "OUTPUT", "-d", self.address(other), "-j", "DROP")

    def heal(self) -> None:
        for number in range(1, len(self._names)):
            self._iptables(number, "-F")

    def _iptables(self, number: int, *arguments: str) -> None:
        subprocess.run([*self.inside(number), "iptables", "-w", *arguments], check=True, capture_output=True)

    def _run(self, *arguments: str) -> None:
        subprocess.run([self._ip, *arguments], check=True, capture_output=True)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _NEW_NETWORK) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the network namespace cannot be entered: {os.strerror(number)}")


@contextmanager
def network(nodes: int) -> Iterator[Network]:
    made = Network(nodes)
    try:
        made.build()
        yield made
    finally:
        made.close()
