"""Which names a topic may have."""

import re

from rookery.core.errors import InvalidTopicError

LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")
RESERVED = frozenset({"__cluster_metadata"})


def check_topic_name(name: str) -> None:
    """Raises InvalidTopicError unless `name` can be a topic, a folder and part of a metric."""
    if not name:
        raise InvalidTopicError("a topic needs a name")
    if name in (".", ".."):
        raise InvalidTopicError(f"a topic cannot be named {name!r}")
    if len(name) > LENGTH_MAX:
        raise InvalidTopicError(f"the name has {len(name)} characters, {LENGTH_MAX} are allowed")
    if not _LEGAL.match(name):
        raise InvalidTopicError(f"{name!r} may contain only letters, digits, '.', '_' and '-'")
    if name in RESERVED:
        raise InvalidTopicError(f"{name!r} is the cluster's own log")


def check_collision(name: str, other: str | None) -> None:
    """`other` is the topic that metrics would call the same, if there is one."""
    if other is not None and other != name:
        raise InvalidTopicError(f"{name!r} collides with {other!r}: '.' and '_' mean the same in metrics")
