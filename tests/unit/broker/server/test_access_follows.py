"""The authorizer of a broker follows the metadata log: after a snapshot, too, it decides by what the image holds."""

from dataclasses import astuple
from random import Random

import pytest

from rookery.broker.metadata.cluster_view import ClusterView
from rookery.broker.server.access import TOPIC, Guard
from rookery.core.metadata.acl_codes import AclOperation, AclPermission, PatternType
from rookery.core.metadata.acls import id_of
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.features import METADATA_VERSION, RELEASE
from rookery.core.metadata.image import EMPTY, AccessControlEntry, Image
from rookery.core.metadata.records import (
    AccessControlEntryRecord,
    FeatureLevelRecord,
    Record,
    RemoveAccessControlEntryRecord,
)
from rookery.core.metadata.snapshot import snapshot_values
from rookery.core.metadata_log import SnapshotId
from rookery.core.security.authorizer import AclIndex, Authorizer
from rookery.core.security.principal import KafkaPrincipal

USERS = [KafkaPrincipal("User", name) for name in ("alice", "bob")]
NAMES = ["orders", "orders-eu", "payments", "*"]


def some_acl(rng: Random) -> AccessControlEntry:
    return AccessControlEntry(
        TOPIC,
        rng.choice(NAMES),
        rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        str(rng.choice(USERS)),
        rng.choice(("*", "10.0.0.1")),
        rng.choice((AclOperation.READ, AclOperation.WRITE, AclOperation.ALL)),
        rng.choice((AclPermission.ALLOW, AclPermission.DENY)),
    )


class Leader:
    """Writes the log; a broker that was away gets it as a snapshot."""

    def __init__(self) -> None:
        self.image: Image = EMPTY
        self.change([FeatureLevelRecord(METADATA_VERSION, RELEASE.levels.max_version)])

    def change(self, records: list[Record]) -> None:
        delta = Delta(self.image)
        for offset, record in enumerate(records, self.image.offset + 1):
            delta.replay(record, offset)
        self.image = delta.apply(epoch=1).after

    def bring(self, view: ClusterView) -> None:
        view.on_snapshot(SnapshotId(self.image.offset + 1, 1), list(snapshot_values(self.image)))


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_and_snapshots_it_decides_by_what_the_image_holds(seed: int) -> None:
    rng, leader = Random(seed), Leader()
    view, guard = ClusterView(node_id=1, cluster_id="c"), Guard(Authorizer())
    view.add_publisher(guard.on_changes)
    access = {(user, host): guard.access(user, host) for user in USERS for host in ("10.0.0.1", "10.0.0.2")}
    for _ in range(30):
        for _ in range(rng.randrange(4)):
            acl = some_acl(rng)
            if id_of(acl) in leader.image.acls:
                leader.change([RemoveAccessControlEntryRecord(id_of(acl))])
            else:
                leader.change([AccessControlEntryRecord(id_of(acl), *astuple(acl))])
        leader.bring(view)
        fresh = Authorizer(AclIndex.of(leader.image.acls.values()))
        assert guard.acls == len(leader.image.acls)
        for (user, host), one in access.items():
            for name in NAMES:
                for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE):
                    expected = fresh.allows(str(user), host, operation, TOPIC, name)
                    assert one.allowed(operation, TOPIC, name) is expected
