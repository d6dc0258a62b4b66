"""The port of the control plane: channels to other nodes and the server that answers them.

`GrpcControl` is what nodes use. What takes its place in a simulation passes the same serialised messages from the same
stubs to the same servicers, without sockets and in virtual time.
"""

from typing import Protocol

import grpc.aio

from rookery.core.net.grpc_channel import open_channel, server_options
from rookery.core.net.tls import Tls


class Control(Protocol):
    """What a node may ask of the control plane."""

    def open_channel(self, address: str, tls: Tls | None) -> grpc.aio.Channel:
        """A channel to `address` (host:port); it connects when first used and reconnects by itself."""

    def server(self, concurrent_calls_max: int) -> grpc.aio.Server:
        """A server that neither has services yet nor listens."""


class GrpcControl:
    """gRPC over TCP."""

    def open_channel(self, address: str, tls: Tls | None) -> grpc.aio.Channel:
        return open_channel(address, tls)

    def server(self, concurrent_calls_max: int) -> grpc.aio.Server:
        return grpc.aio.server(options=server_options(), maximum_concurrent_rpcs=concurrent_calls_max)


GRPC: Control = GrpcControl()
