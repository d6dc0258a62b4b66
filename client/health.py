"""Whether a client gets on with its work, for readiness probes and logs."""

from typing import NamedTuple


class Health(NamedTuple):
    """What `health()` of a client returns: the state of this moment, without asking the cluster."""

    problems: tuple[str, ...] = ()
    """What is in the way, the worst first."""

    @property
    def ok(self) -> bool:
        return not self.problems
