"""Administration of a cluster.

| module | what it is |
|---|---|
| `client` | the class `Admin` that users have, put together from the next five |
| `topics`, `configs`, `groups`, `access`, `cluster` | its calls |
| `calls` | whom to ask, and when again |
| `types` | what calls take and return |
| `plain` | single calls over a `Cluster`, for commands |
"""

from rookery.client.admin.client import Admin
from rookery.client.admin.plain import (
    NewTopic,
    create_partitions,
    create_topic,
    delete_topic,
    topic_overrides,
)

__all__ = ["Admin", "NewTopic", "create_partitions", "create_topic", "delete_topic", "topic_overrides"]
