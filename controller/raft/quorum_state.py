"""The file ``quorum-state``: what a voter must never forget, as JSON with Kafka's field names.

It is replaced as a whole and durable before anything that follows from it leaves the node. A voter whose log
holds records but whose state is missing or damaged does not start: it may have promised its vote in an epoch
that it no longer knows, and a second vote in that epoch could elect a second leader.
"""

import json

from rookery.controller.raft.ready import QuorumState
from rookery.controller.raft.voters import ReplicaKey
from rookery.core.ids import id_text
from rookery.core.log.checkpoints import CheckpointDamaged
from rookery.core.log.folder_files import id_from

FILE = "quorum-state"
DATA_VERSION = 1


def encode(state: QuorumState) -> bytes:
    voted = state.voted_for
    return json.dumps(
        {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": -1 if voted is None else voted.id,
            "votedDirectoryId": None if voted is None else id_text(voted.directory_id),
            "data_version": DATA_VERSION,
        }
    ).encode()


def decode(path: str, content: bytes) -> QuorumState:
    """Raises ValueError with the reason unless every field is there and makes sense."""
    try:
        found = json.loads(content)
        if found["data_version"] != DATA_VERSION:
            raise ValueError(f"its data_version {found['data_version']} is not known to this release")
        voted = None
        if found["votedId"] != -1:
            voted = ReplicaKey(int(found["votedId"]), id_from(path, found["votedDirectoryId"]))
        epoch, leader_id = int(found["leaderEpoch"]), int(found["leaderId"])
    except (KeyError, TypeError, CheckpointDamaged, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"it cannot be read ({error})") from error
    if epoch < 0 or leader_id < -1:
        raise ValueError(f"epoch {epoch} or leader {leader_id} is impossible")
    return QuorumState(epoch, voted, leader_id)
