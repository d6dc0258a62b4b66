"""A node whose configuration names no metadata quorum becomes a cluster of one node.

Configurations written for ZooKeeper name a broker and its listeners, but no controller. Such a node is broker and
controller, with itself as the only voter, on a port that only this machine can reach.
"""

from dataclasses import dataclass

from rookery.core.config import node
from rookery.core.config.listeners import Endpoint, listeners_of
from rookery.core.config.options import Settings

HOST = "127.0.0.1"
PORT = 9093
PORT_STEP = 100
NODE_ID = 1


@dataclass(frozen=True, slots=True)
class Standalone:
    """Completed settings, and notes about what was added; no notes if the node has a quorum."""

    settings: Settings
    notes: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        return bool(self.notes)


def complete(settings: Settings) -> Standalone:
    """`settings` with a quorum of one, if they name no quorum and do not say what the node's role is."""
    quorum_options = (
        node.CONTROLLER_QUORUM_VOTERS,
        node.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS,
        node.PROCESS_ROLES,
    )
    if any(settings.is_set(option) for option in quorum_options):
        return Standalone(settings)
    node_id = settings[node.NODE_ID] if settings.is_set(node.NODE_ID) else NODE_ID
    end, listeners = _controller(settings)
    texts = {
        node.NODE_ID.name: str(node_id),
        node.LISTENERS.name: ",".join(map(str, listeners)),
        node.CONTROLLER_QUORUM_VOTERS.name: f"{node_id}@{end.host or HOST}:{end.port}",
    }
    note = (
        f"no controller.quorum.voters, controller.quorum.bootstrap.servers or process.roles: node {node_id} is a "
        f"cluster of its own, with its controller on {end.host}:{end.port}"
    )
    return Standalone(settings.having(texts), (note,))


def _controller(settings: Settings) -> tuple[Endpoint, list[Endpoint]]:
    """The controller's address, as configured or on the first port that no client listener uses; and all listeners."""
    found = listeners_of(settings)
    clients = [listener.bind for listener in found.clients]
    if settings.is_set(node.LISTENERS) and found.controllers:
        end = found.controllers[0].bind
    else:
        name = settings[node.CONTROLLER_LISTENER_NAMES][0].upper()
        taken = {client.port for client in clients}
        port = next(port for port in range(PORT, 1 << 16, PORT_STEP) if port not in taken)
        end = Endpoint(name, HOST, port)
    return end, [*clients, end]
