"""What every client has: settings, the connections to a cluster, the process and the loop it belongs to."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from rookery.client.errors import (
    AuthenticationError,
    ClosedError,
    ForkedError,
    IllegalStateError,
    KafkaTimeoutError,
    NoBrokersError,
    RetriableError,
)
from rookery.client.options import (
    BOOTSTRAP_SERVERS,
    CLIENT_ID,
    CONNECTION_SETUP_TIMEOUT_MS,
    RECONNECT_BACKOFF_MAX_MS,
    RECONNECT_BACKOFF_MS,
    REQUEST_TIMEOUT_MS,
    Settings,
)
from rookery.client.security import security_of
from rookery.core.errors import KafkaError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from rookery.core.net.backoff import BackoffSettings
from rookery.core.net.cluster import BootstrapError, Cluster
from rookery.core.net.connection import ConnectionLostError
from rookery.core.net.network import Network
from rookery.core.net.peers import PeerLimits

_forks = 0
"""How many forks lie between this process and the one that imported the module."""


def fork_count() -> int:
    return _forks


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class Session:
    """The connections of one client. `open` is called in the loop that the client lives in."""

    def __init__(self, what: str, settings: Settings, network: Network | None = None) -> None:
        self.what = what
        self.settings = settings
        self.closed = False
        self._network = network
        self._security = security_of(what, settings)
        self._forks = _forks
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cluster: Cluster | None = None
        self._adopted = False

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            raise IllegalStateError(
                f"this {self.what} is not open",
                f"Use `async with {self.what}(...)`, or await `start()` first",
            )
        return self._cluster

    @property
    def is_open(self) -> bool:
        return self._cluster is not None and not self.closed

    @property
    def forked(self) -> bool:
        """Whether this is another process than the one that made the client."""
        return self._forks != _forks

    async def open(self) -> None:
        """Connect to one node, so that a wrong address or password is known at once. Does nothing if open."""
        if self.is_open:
            return
        self.check_usable()
        settings = self.settings
        self._loop = asyncio.get_running_loop()
        cluster = Cluster(
            settings[BOOTSTRAP_SERVERS],
            client_id=settings[CLIENT_ID],
            network=self._network,
            security=self._security,
            limits=PeerLimits(
                connect_timeout_s=settings[CONNECTION_SETUP_TIMEOUT_MS] / 1000,
                backoff=BackoffSettings(
                    settings[RECONNECT_BACKOFF_MS] / 1000, settings[RECONNECT_BACKOFF_MAX_MS] / 1000
                ),
            ),
            request_timeout_s=settings[REQUEST_TIMEOUT_MS] / 1000,
        )
        try:
            await cluster.refresh()
        except BaseException as error:
            await cluster.close()
            raise explained(error) from None
        self._cluster = cluster

    def adopt(self, cluster: Cluster) -> None:
        """Use connections of another owner, who closes them. For the loop that they live in."""
        self.check_usable()
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._adopted = True

    async def close(self) -> None:
        """Close the connections; calls after the first do nothing."""
        self.closed = True
        if self._cluster is not None and not self.forked and not self._adopted:
            await self._cluster.close()

    def check_usable(self) -> None:
        """Raise if the client is closed, of another process, or of another loop."""
        if self.closed:
            raise ClosedError(f"this {self.what} is closed", "Make a new one")
        if self.forked:
            raise ForkedError(self.what)
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise IllegalStateError(
                f"this {self.what} belongs to another event loop",
                "Make one in each loop, or use rookery.sync from several threads",
            )

    def explain(self) -> dict[str, Any]:
        """Nodes, leaders and connections as they are known now."""
        if self._cluster is None:
            return {"state": "closed" if self.closed else "not open"}
        view, peers = self._cluster.view, self._cluster.peers
        return {
            "state": "closed" if self.closed else "open",
            "cluster_id": view.cluster_id,
            "nodes": {node.id: node.address for node in view.nodes.values()},
            "connections": {"open": peers.connections, "opened": peers.opened, "failed": peers.failed},
            "requests": peers.requests,
            "topics": {
                name: {index: each.leader for index, each in topic.partitions.items()}
                for name, topic in view.topics.items()
            },
        }

    def options(self) -> Mapping[str, object]:
        """What was set, without secrets."""
        table = self.settings.table
        return {
            name: "(hidden)" if table[name].sensitive else value
            for name, value in self.settings.given.items()
        }


def explained(error: BaseException) -> BaseException:
    """An error of the connections as users of the client know it; others stay what they are."""
    match error:
        case BootstrapError():
            return NoBrokersError(error.tried)
        case SaslAuthenticationFailedError() | UnsupportedSaslMechanismError():
            return AuthenticationError(str(error), "Check sasl_mechanism, sasl_username and sasl_password")
        case ConnectionLostError():
            return KafkaTimeoutError(str(error))
        case OSError() if not isinstance(error, KafkaError):
            return RetriableError(f"a node could not be reached: {error}")
        case _:
            return error
