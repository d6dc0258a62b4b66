"""How many connections there may be, and from where. Pure: it counts, the server acts."""

from rookery.broker.server.settings import ServerSettings


class ConnectionLimits:
    """Counts connections, in total and by address."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        """May be replaced at any time; who is connected stays."""
        self._by_ip: dict[str, int] = {}
        self.count = 0

    def admit(self, ip: str) -> str | None:
        """Count one more from `ip`; or, when it may not come in, the option that forbids it."""
        settings = self.settings
        if self.count >= settings.connections_max:
            return f"max.connections={settings.connections_max}"
        here = self._by_ip.get(ip, 0)
        override = settings.connections_per_ip_overrides.get(ip)
        if override is not None and here >= override:
            return f"max.connections.per.ip.overrides={ip}:{override}"
        if override is None and here >= settings.connections_per_ip_max:
            return f"max.connections.per.ip={settings.connections_per_ip_max}"
        self.count += 1
        self._by_ip[ip] = here + 1
        return None

    def release(self, ip: str) -> None:
        self.count -= 1
        here = self._by_ip[ip] - 1
        if here:
            self._by_ip[ip] = here
        else:
            del self._by_ip[ip]
