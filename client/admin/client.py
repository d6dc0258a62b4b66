"""The admin client: everything a cluster offers, as typed calls."""

from rookery.client.admin.access import AccessCalls
from rookery.client.admin.cluster import ClusterCalls
from rookery.client.admin.configs import ConfigCalls
from rookery.client.admin.groups import GroupCalls
from rookery.client.admin.topics import TopicCalls


class Admin(TopicCalls, ConfigCalls, GroupCalls, AccessCalls, ClusterCalls):
    """Administers any Kafka cluster. Each call raises the typed error of a refusal; failures that pass by themselves
    are repeated for ``default.api.timeout.ms``.

        async with Admin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topic("orders", partitions=3, replication_factor=3)
    """
