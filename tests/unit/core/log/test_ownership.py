"""A node has its folders for itself, whichever of its roles opens them."""

import random
from uuid import UUID

import pytest

from rookery.core.disk import FolderInUseError
from rookery.core.log.ownership import FolderLocks, WrongFolderError, claim_folder
from rookery.core.testing.disk import MemoryDisk

ID = UUID(int=7)


def test_the_roles_of_a_node_share_a_folder_that_others_do_not_get() -> None:
    disk = MemoryDisk(random.Random(0))
    locks, others = FolderLocks(disk, 1), FolderLocks(disk, 1)
    claim_folder(locks, "/data", cluster_id="c", new_directory_id=ID)
    claim_folder(locks, "/data/", cluster_id="c", new_directory_id=ID)
    for _ in range(2):
        with pytest.raises(FolderInUseError, match="/data is in use by node 1"):
            claim_folder(others, "/data", cluster_id="c", new_directory_id=ID)
        locks.release("/data")
    claim_folder(others, "/data", cluster_id="c", new_directory_id=ID)


@pytest.mark.invariant("S11")
def test_a_folder_that_is_refused_is_not_kept() -> None:
    disk = MemoryDisk(random.Random(0))
    claim_folder(locks := FolderLocks(disk, 1), "/data", cluster_id="c", new_directory_id=ID)
    locks.release("/data")
    disk.edit("/data/meta.properties", b"version=1\n")
    with pytest.raises(WrongFolderError, match="missing"):
        claim_folder(FolderLocks(disk, 1), "/data", cluster_id="c", new_directory_id=ID)
    disk.lock("/data", "somebody").release()
