"""Whose a log folder is: a node starts only on a disk that says it is its own."""

import os
from uuid import UUID

from rookery.core.disk import Disk
from rookery.core.log.folder_files import META_PROPERTIES, MetaProperties


class WrongFolderError(Exception):
    """The folder belongs to another node or cluster, or nobody said to which cluster a new one shall belong."""


def claim_folder(disk: Disk, folder: str, *, node_id: int, cluster_id: str, new_directory_id: UUID) -> MetaProperties:
    """What `meta.properties` says, written first if the folder is new. WrongFolderError if it is not this node's.

    `cluster_id` may be empty on a folder that knows its cluster. Blocks; for a thread.
    """
    disk.mkdir(folder)
    if os.path.dirname(folder):
        disk.sync_dir(os.path.dirname(folder))
    found = MetaProperties.read(disk, folder)
    path = f"{folder}/{META_PROPERTIES}"
    if found is None:
        if not cluster_id:
            raise WrongFolderError(
                f"{folder} is new and rookery.cluster.id is not set: say which cluster it shall belong to"
            )
        found = MetaProperties(cluster_id, node_id, new_directory_id)
        found.write(disk, folder)
        return found
    if cluster_id and found.cluster_id != cluster_id:
        raise WrongFolderError(
            f"{path} says the folder belongs to cluster {found.cluster_id}, but this node is configured for cluster "
            f"{cluster_id}: point log.dirs at the right folder, or correct rookery.cluster.id"
        )
    if found.node_id != node_id:
        raise WrongFolderError(
            f"{path} says the folder belongs to node {found.node_id}, but node.id is {node_id}: point log.dirs at "
            "this node's own folder, or correct node.id"
        )
    return found
