"""A cluster inside your test.

    from rookery.testing import Cluster

    with Cluster(nodes=3) as c:
        ...                       # any Kafka client connects to c.bootstrap
        c.kill(c.leader("t", 0))
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rookery.testing.cluster import Cluster
    from rookery.testing.faults import Fault, UnsupportedFault
    from rookery.testing.history import History
    from rookery.testing.questions import StoredRecord
    from rookery.testing.tracing import Trace
    from rookery.testing.unittest_case import ClusterTestCase

__all__ = ["Cluster", "ClusterTestCase", "Fault", "History", "StoredRecord", "Trace", "UnsupportedFault"]
_HOME = {
    "Cluster": "cluster",
    "ClusterTestCase": "unittest_case",
    "Fault": "faults",
    "History": "history",
    "StoredRecord": "questions",
    "Trace": "tracing",
    "UnsupportedFault": "faults",
}


def __getattr__(name: str) -> Any:
    """Nothing is imported before it is used: the pytest plugin stands in this package."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
