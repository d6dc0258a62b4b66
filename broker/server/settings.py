"""The options of the request path, read once from the node's settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rookery.core.config import node, security
from rookery.core.config.options import INT_MAX, ConfigError, Settings


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Kafka's names with units last."""

    request_bytes_max: int = 100 * 1024 * 1024
    queued_request_bytes_max: int = 512 * 1024 * 1024
    """Memory for requests that are being received, in all; -1 is no limit."""
    queued_requests_max: int = 500
    """Requests of one connection that may wait for their answer."""
    connections_max: int = INT_MAX
    connections_per_ip_max: int = INT_MAX
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    unauthenticated_max: int = 2000
    unauthenticated_per_ip_max: int = 500
    connections_idle_ms_max: int = 600_000
    frame_timeout_ms: int = 30_000
    response_bytes_high_water: int = 1 << 20
    """Unsent bytes of one connection above which its further requests are left unread."""

    @classmethod
    def of(cls, settings: Settings) -> "ServerSettings":
        return cls(
            request_bytes_max=settings[node.SOCKET_REQUEST_MAX_BYTES],
            queued_request_bytes_max=settings[node.QUEUED_MAX_REQUEST_BYTES],
            queued_requests_max=settings[node.QUEUED_MAX_REQUESTS],
            connections_max=settings[node.MAX_CONNECTIONS],
            connections_per_ip_max=settings[node.MAX_CONNECTIONS_PER_IP],
            connections_per_ip_overrides=_overrides(settings[node.MAX_CONNECTIONS_PER_IP_OVERRIDES]),
            unauthenticated_max=settings[security.MAX_UNAUTHENTICATED_CONNECTIONS],
            unauthenticated_per_ip_max=settings[security.MAX_UNAUTHENTICATED_CONNECTIONS_PER_IP],
            connections_idle_ms_max=settings[node.CONNECTIONS_MAX_IDLE_MS],
            frame_timeout_ms=settings[node.FRAME_TIMEOUT_MS],
        )


def _overrides(texts: tuple[str, ...]) -> dict[str, int]:
    overrides = {}
    for text in texts:
        address, colon, count = text.rpartition(":")
        if not (colon and address and count.isdecimal()):
            raise ConfigError(node.MAX_CONNECTIONS_PER_IP_OVERRIDES.name, text, "address:count is needed")
        overrides[address] = int(count)
    return overrides


class ConnectionLimits:
    """Counts connections, in total and by address."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        """May be replaced at any time; who is connected stays."""
        self._by_ip: dict[str, int] = {}
        self.count = 0

    def admit(self, ip: str, make_room: Callable[[], bool] | None = None) -> str | None:
        """Count one more from `ip`; or, when it may not come in, the option that forbids it. When all slots are taken
        `make_room` may free one, and says whether it did."""
        settings = self.settings
        here = self._by_ip.get(ip, 0)
        override = settings.connections_per_ip_overrides.get(ip)
        if override is not None and here >= override:
            return f"max.connections.per.ip.overrides={ip}:{override}"
        if override is None and here >= settings.connections_per_ip_max:
            return f"max.connections.per.ip={settings.connections_per_ip_max}"
        if self.count >= settings.connections_max and (make_room is None or not make_room()):
            return f"max.connections={settings.connections_max}"
        self.count += 1
        self._by_ip[ip] = here + 1
        return None

    @property
    def exceeded(self) -> bool:
        return self.count > self.settings.connections_max

    def release(self, ip: str) -> None:
        self.count -= 1
        here = self._by_ip[ip] - 1
        if here:
            self._by_ip[ip] = here
        else:
            del self._by_ip[ip]
