"""The audit log, logger `authorizer`: a line for each denial, and no more lines than a person can read.

The same denial has a line a second at most, which says how often it was repeated; all denials together have
`LINES_MAX` a second. Names come from clients, so they are cut, and what cannot be printed is escaped.
"""

from collections.abc import Callable
from enum import IntEnum

from rookery.broker.server.access import Denial
from rookery.core.event_logging import get_logger
from rookery.core.metadata.acl_codes import AclOperation, AclResourceType

_log = get_logger("authorizer")

LINES_MAX = 100
"""A second."""
SHOWN_MAX = 250
"""Characters of a name."""

_Key = tuple[str, int, int, str]


class Audit:
    """Writes what was denied. `now` is a clock that never jumps, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._second = -1
        self._repeated: dict[_Key, int] = {}
        """Denials that had a line in this second, and how often they came again."""
        self._left_out = 0

    def denied(self, denial: Denial) -> None:
        key = denial.principal, denial.operation, denial.type, denial.name
        second = int(self._now())
        if second != self._second:
            self._begin(second)
        if key in self._repeated:
            self._repeated[key] += 1
        elif len(self._repeated) < LINES_MAX:
            self._repeated[key] = 0
            self._write(denial)
        else:
            self._left_out += 1

    def _begin(self, second: int) -> None:
        """A new second: what had no line in the last one is summed up."""
        self._second = second
        repeated, left_out = sum(self._repeated.values()), self._left_out
        self._repeated.clear()
        self._left_out = 0
        if repeated or left_out:
            _log.info("authorization.denied.again", repeated=repeated, others=left_out)

    def _write(self, denial: Denial) -> None:
        verdict = denial.authorizer.explain(
            denial.principal, denial.host, denial.operation, denial.type, denial.name
        )
        _log.info(
            "authorization.denied",
            principal=shown(denial.principal),
            host=denial.host,
            operation=_name(AclOperation, denial.operation),
            resource=f"{_name(AclResourceType, denial.type)}:LITERAL:{shown(denial.name)}",
            request=denial.api,
            rule=shown(verdict.rule),
        )


def shown(text: str) -> str:
    """A client's text, fit for a log."""
    cut = text[:SHOWN_MAX]
    made = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)
    return made if len(text) <= SHOWN_MAX else f"{made}..."


def _name(codes: type[IntEnum], code: int) -> str:
    return codes(code).name if code in set(codes) else str(code)
