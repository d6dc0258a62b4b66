"""Regular expressions of subscriptions: RE2's syntax, matched in time linear in the topic's name.

Python's own engine can be kept busy for ages by a short pattern, so it is never given one from a client.
"""

from collections.abc import Callable
from functools import lru_cache

import re2

from rookery.core.errors import InvalidRegularExpressionError

LENGTH_MAX = 10_000
MEMORY_MAX = 1 << 20
"""Bytes that a compiled pattern may take: counted repetitions multiply."""

Matcher = Callable[[str], bool]


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Matcher:
    """Whether a whole name matches. Raises InvalidRegularExpressionError."""
    if len(pattern) > LENGTH_MAX:
        raise InvalidRegularExpressionError(f"a regular expression of {len(pattern)} characters: {LENGTH_MAX} may be")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX
    options.never_capture = True
    try:
        expression = re2.compile(pattern, options=options)
    except re2.error as error:
        raise InvalidRegularExpressionError(f"{pattern!r} is no regular expression of RE2's syntax: {error}") from None
    return lambda name: expression.fullmatch(name) is not None
