"""The HTTP listener of a node, from its options: its address, its certificate, its token."""

from collections.abc import Mapping

from rookery.broker.server.tls import ListenerTls
from rookery.core.config import node as keys
from rookery.core.config import security
from rookery.core.config.listeners import parse_address
from rookery.core.config.options import HIDDEN, ConfigError, Settings
from rookery.core.net.http import Handler, HttpServer

NAME = "HTTP"
"""In metrics and logs, where listeners are named."""


def http_tls(settings: Settings) -> ListenerTls | None:
    """None if HTTP is plain, or not served. Raises ConfigError for what would have no effect, or cannot be read."""
    location = settings[security.HTTP_SSL_KEYSTORE_LOCATION]
    if not settings[keys.HTTP_LISTENER]:
        for option in (security.HTTP_SSL_KEYSTORE_LOCATION, security.HTTP_TOKEN):
            if settings[option]:
                raise ConfigError(option.name, HIDDEN, f"there is nothing to protect: set {keys.HTTP_LISTENER.name}")
        return None
    if not location:
        return None
    texts = {
        "ssl.keystore.location": location,
        "ssl.keystore.password": settings[security.HTTP_SSL_KEYSTORE_PASSWORD] or "",
        "ssl.key.password": settings[security.HTTP_SSL_KEY_PASSWORD] or "",
    }
    return ListenerTls(NAME, texts)


def http_server(settings: Settings, pages: Mapping[str, Handler], tls: ListenerTls | None) -> HttpServer | None:
    if not settings[keys.HTTP_LISTENER]:
        return None
    host, port = parse_address(keys.HTTP_LISTENER.name, settings[keys.HTTP_LISTENER])
    context = None if tls is None else lambda: tls.context
    return HttpServer(host, port, pages, tls=context, token=settings[security.HTTP_TOKEN] or "")
