"""The port of the control plane: channels to other nodes and the server that answers them.

`GrpcControl` is what nodes use: gRPC, with the options that failover depends on. What takes its place in a
simulation passes the same serialised messages from the same stubs to the same servicers, without sockets and in
virtual time.

gRPC's own defaults wait up to two minutes before they try a peer again, and never notice a peer that vanished without
closing its connection. The options here retry within half a second and ping idle connections.
"""

from collections.abc import Sequence
from typing import Protocol

import grpc
import grpc.aio

from rookery.core.net.tls import CurrentTls, Tls

MESSAGE_BYTES_MAX = 16 << 20
KEEPALIVE_MS = 2_000
"""A caller finds another connection when its peer does not answer pings for this long."""
SERVER_KEEPALIVE_MS = 30_000
"""A server is patient: whether a silent caller is dead is for sessions to decide, and a process that stalls for a
few seconds must not look like one whose connection closed."""
RECONNECT_MS = (100, 500)
"""First and longest pause between two attempts to connect."""
CONNECT_MS = 2_000
"""How long an attempt may take until the peer says its first word; gRPC calls it the shortest pause, and gives an
attempt no more than that. On a busy machine or a long way a handshake takes its time."""
HANDSHAKE_MS = 10_000
"""How long a server waits for the handshake of a connection; gRPC alone would wait two minutes, and every connection
that says nothing holds a file."""
LOOKUP_MS = 500
"""The shortest time between two lookups of a peer's name: a container may come back at another address."""

Options = Sequence[tuple[str, str | int]]


def _shared(message_bytes_max: int, keepalive_ms: int) -> list[tuple[str, str | int]]:
    return [
        ("grpc.max_send_message_length", message_bytes_max),
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", keepalive_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def channel_options(message_bytes_max: int = MESSAGE_BYTES_MAX) -> Options:
    first, longest = RECONNECT_MS
    return [
        *_shared(message_bytes_max, KEEPALIVE_MS),
        ("grpc.initial_reconnect_backoff_ms", first),
        ("grpc.min_reconnect_backoff_ms", CONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", longest),
        ("grpc.dns_min_time_between_resolutions_ms", LOOKUP_MS),
        ("grpc.enable_retries", 0),  # callers retry, with their own bounds
        ("grpc.enable_http_proxy", 0),  # a proxy set for the web must not come between nodes
        ("grpc.use_local_subchannel_pool", 1),  # one connection per channel: its end means the peer's end
    ]


def server_options(message_bytes_max: int = MESSAGE_BYTES_MAX) -> Options:
    return [
        *_shared(message_bytes_max, SERVER_KEEPALIVE_MS),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.so_reuseport", 0),  # a second process on the port must fail, not share it
    ]


def open_channel(
    address: str, tls: Tls | None = None, *, message_bytes_max: int = MESSAGE_BYTES_MAX
) -> grpc.aio.Channel:
    """A channel to `address` (host:port); it connects when first used and reconnects by itself."""
    options = channel_options(message_bytes_max)
    if tls is None or tls.plaintext == "use":
        return grpc.aio.insecure_channel(address, options=options)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=tls.trusted, private_key=tls.key, certificate_chain=tls.chain
    )
    return grpc.aio.secure_channel(address, credentials, options=options)


def name_is_unknown(error: Exception) -> bool:
    """Whether the peer's name cannot be resolved, as while its container is down. The channel looks it up again after
    longer and longer pauses, in the end of two minutes, whatever its options say: drop it, and the next one asks at
    once."""
    if not isinstance(error, grpc.aio.AioRpcError) or error.code() != grpc.StatusCode.UNAVAILABLE:
        return False
    return "resol" in (error.details() or "")


def bind(server: grpc.aio.Server, address: str, tls: CurrentTls | None = None) -> int:
    """Listen on `address` and return the port; raises OSError with the address when it cannot be had."""
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, _server_credentials(tls))
    except RuntimeError as error:
        raise OSError(f"cannot listen on {address} for gRPC: {error}") from error
    if port == 0:
        raise OSError(f"cannot listen on {address} for gRPC: is the port taken, or the address not local?")
    return port


def _server_credentials(tls: CurrentTls) -> grpc.ServerCredentials:
    """Each handshake shows, and trusts, what holds at its time."""
    exchange = Exchange(tls)
    exchange.happened()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        return _configuration(tls.current) if exchange.happened() else None

    first = tls.current
    return grpc.dynamic_ssl_server_credentials(
        _configuration(first),
        fetch,  # type: ignore[arg-type]  # None is allowed, and means: as before
        require_client_authentication=first.client_auth == "required",
    )


def _configuration(tls: Tls) -> grpc.ServerCertificateConfiguration:
    if tls.key is None or tls.chain is None:
        raise ValueError("a TLS server needs a key and a certificate chain (ssl.keystore.*)")
    return grpc.ssl_server_certificate_configuration(
        [(tls.key, tls.chain)], root_certificates=None if tls.client_auth == "none" else tls.trusted
    )


class Exchange:
    """Notices that certificates were exchanged: channels that were opened before show the old ones when they connect
    again, so their owner drops them. They end with the calls that still use them."""

    def __init__(self, tls: CurrentTls | None) -> None:
        self._tls = tls
        self._seen: Tls | None = None

    @property
    def current(self) -> Tls | None:
        """What holds now; None without TLS."""
        return None if self._tls is None else self._tls.current

    def happened(self) -> bool:
        """Whether it did since the last question."""
        if self._tls is None or self._tls.current is self._seen:
            return False
        self._seen = self._tls.current
        return True


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
