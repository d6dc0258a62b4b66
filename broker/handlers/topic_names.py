"""Topics that clients may not create by asking for them."""

import re

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_valid(name: str) -> bool:
    """Whether a topic could have this name; the controller has the last word when one is created."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def is_internal(name: str) -> bool:
    return name in INTERNAL
