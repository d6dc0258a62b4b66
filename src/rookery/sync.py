"""The client for code without asyncio: the names of `rookery`, and each call blocks until it is done.

from rookery.sync import Producer

with Producer(bootstrap_servers="localhost:9092") as producer:
    producer.send("orders", b"value", key=b"key").result()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import rookery

if TYPE_CHECKING:
    from rookery.client.faces import Admin as Admin
    from rookery.client.faces import Consumer as Consumer
    from rookery.client.faces import Producer as Producer

_OWN = ("Admin", "Consumer", "Producer")
__all__ = [name for name in rookery.__all__ if name != "__version__"]


def __getattr__(name: str) -> Any:
    if name in _OWN:
        return getattr(import_module("rookery.client.faces"), name)
    return getattr(rookery, name)


def __dir__() -> list[str]:
    return __all__
