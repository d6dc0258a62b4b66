"""What the suite is aimed at: a cluster of ours, or, with ROOKERY_TESTS_AIM=kafka, Apache Kafka's own server.

Aimed at Kafka the tests say whether they ask for what Kafka does: a test that fails there describes this project
alone, and docs/differences.md has to name it.
"""

from contextlib import AbstractContextManager

from tests import needs
from tests.cluster.local import LocalCluster, local_cluster
from tests.interop.kafka.cluster import kafka_cluster


def aimed_cluster(nodes: int = 3, **options: str) -> AbstractContextManager[LocalCluster]:
    """Real processes, whosever they are; option names with ``__`` for dots."""
    return kafka_cluster(nodes, **options) if needs.aimed_at_kafka() else local_cluster(nodes, **options)
