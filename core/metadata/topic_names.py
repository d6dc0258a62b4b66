"""Which names a topic may have, and which topics are the cluster's own."""

import re

LENGTH_MAX = 249
CLUSTER_LOG = "__cluster_metadata"
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that coordinators create for themselves; asking for one does not."""
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def problem_with(name: str) -> str | None:
    """Why `name` cannot be a topic, a folder and part of a metric; None if it can."""
    if not name:
        return "a topic needs a name"
    if name in (".", ".."):
        return f"a topic cannot be named {name!r}"
    if len(name) > LENGTH_MAX:
        return f"the name has {len(name)} characters, {LENGTH_MAX} are allowed"
    if not _LEGAL.match(name):
        return f"{name!r} may contain only letters, digits, '.', '_' and '-'"
    if name == CLUSTER_LOG:
        return f"{name!r} is the cluster's own log"
    return None


def is_valid(name: str) -> bool:
    return problem_with(name) is None


def is_internal(name: str) -> bool:
    return name in INTERNAL
