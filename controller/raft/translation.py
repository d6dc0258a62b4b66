"""Raft's messages as protobuf and back. What a caller sends is not trusted: ValueError says what is wrong.

The core matches replies to requests by a correlation number; gRPC does that by itself, so the number never
travels and each side fills in its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rookery.controller.raft import messages as m
from rookery.controller.raft.batches import decode, directory_bytes, directory_of
from rookery.controller.raft.voters import ReplicaKey
from rookery.core.metadata.image import FeatureRange
from rookery.proto import raft_pb2 as pb

NO_ONE = -1


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """In whose name requests are sent; `version` of the protocol follows metadata.version."""

    cluster_id: str
    me: ReplicaKey
    version: int
    features: Sequence[FeatureRange] = ()

    def to(self, node_id: int) -> pb.Caller:
        return pb.Caller(
            cluster_id=self.cluster_id,
            version=self.version,
            node_id=self.me.id,
            directory_id=directory_bytes(self.me.directory_id),
            to_id=node_id if node_id >= 0 else NO_ONE,
        )


def replica_of(sender: pb.Caller) -> ReplicaKey:
    return ReplicaKey(sender.node_id, directory_of(sender.directory_id))


def _position(offset: int, epoch: int) -> pb.LogPosition:
    return pb.LogPosition(offset=offset, epoch=epoch)


# -- requests ------------------------------------------------------------------------------------------------


def vote_request(caller: CallerIdentity, request: m.VoteRequest, to: int) -> pb.VoteRequest:
    return pb.VoteRequest(
        caller=caller.to(to),
        epoch=request.epoch,
        log_end=_position(request.log_end, request.last_epoch),
        pre_vote=request.pre_vote,
        voter_directory_id=directory_bytes(request.voter.directory_id),
    )


def read_vote_request(request: pb.VoteRequest, correlation: int) -> m.VoteRequest:
    candidate = replica_of(request.caller)
    return m.VoteRequest(
        candidate.id,
        correlation,
        request.epoch,
        candidate,
        ReplicaKey(request.caller.to_id, directory_of(request.voter_directory_id)),
        request.log_end.epoch,
        request.log_end.offset,
        request.pre_vote,
    )


def begin_request(
    caller: CallerIdentity, request: m.BeginEpochRequest, to: int
) -> pb.BeginEpochRequest:
    return pb.BeginEpochRequest(
        caller=caller.to(to),
        epoch=request.epoch,
        leader_endpoint=request.leader_endpoint,
        voter_directory_id=directory_bytes(request.voter.directory_id),
    )


def read_begin_request(request: pb.BeginEpochRequest, correlation: int) -> m.BeginEpochRequest:
    leader = replica_of(request.caller)
    voter = ReplicaKey(request.caller.to_id, directory_of(request.voter_directory_id))
    return m.BeginEpochRequest(
        leader.id, correlation, request.epoch, leader, voter, request.leader_endpoint
    )


def end_request(caller: CallerIdentity, request: m.EndEpochRequest, to: int) -> pb.EndEpochRequest:
    return pb.EndEpochRequest(
        caller=caller.to(to),
        epoch=request.epoch,
        preferred_successors=[
            pb.Voter(id=key.id, directory_id=directory_bytes(key.directory_id)) for key in request.successors
        ],
    )


def read_end_request(request: pb.EndEpochRequest, correlation: int) -> m.EndEpochRequest:
    leader = request.caller.node_id
    successors = tuple(
        ReplicaKey(voter.id, directory_of(voter.directory_id)) for voter in request.preferred_successors
    )
    return m.EndEpochRequest(leader, correlation, request.epoch, leader, successors)


def fetch_request(
    caller: CallerIdentity, request: m.FetchRequest, to: int, max_bytes: int
) -> pb.FetchRequest:
    return pb.FetchRequest(
        caller=caller.to(to),
        epoch=request.epoch,
        log_end=_position(request.fetch_offset, request.last_fetched_epoch),
        high_watermark=request.high_watermark,
        max_wait_ms=request.max_wait_ms,
        max_bytes=max_bytes,
        features=[feature._asdict() for feature in caller.features],
    )


def features_of(request: pb.FetchRequest) -> tuple[FeatureRange, ...]:
    return tuple(FeatureRange(each.name, each.min_version, each.max_version) for each in request.features)


def read_fetch_request(request: pb.FetchRequest, correlation: int, max_wait_ms: int) -> m.FetchRequest:
    replica = replica_of(request.caller)
    return m.FetchRequest(
        replica.id,
        correlation,
        request.epoch,
        replica,
        request.log_end.offset,
        request.log_end.epoch,
        request.high_watermark,
        min(max(request.max_wait_ms, 0), max_wait_ms),
    )


def snapshot_request(
    caller: CallerIdentity, request: m.FetchSnapshotRequest, to: int
) -> pb.FetchSnapshotRequest:
    return pb.FetchSnapshotRequest(
        caller=caller.to(to),
        epoch=request.epoch,
        snapshot=_position(request.snapshot.end_offset, request.snapshot.epoch),
        position=request.position,
    )


def read_snapshot_request(request: pb.FetchSnapshotRequest, correlation: int) -> m.FetchSnapshotRequest:
    replica = replica_of(request.caller)
    snapshot = m.SnapshotId(request.snapshot.offset, request.snapshot.epoch)
    return m.FetchSnapshotRequest(
        replica.id, correlation, request.epoch, replica, snapshot, request.position
    )


# -- responses -----------------------------------------------------------------------------------------------


def leader_message(response: m.Response) -> pb.Leader:
    return pb.Leader(
        id=response.leader_id,
        epoch=response.epoch,
        endpoint=response.leader_endpoint,
        reported_by=response.sender,
    )


def vote_response(response: m.VoteResponse) -> pb.VoteResponse:
    return pb.VoteResponse(
        error=response.refusal,
        leader=leader_message(response),
        granted=response.granted,
        directory_id=directory_bytes(response.directory_id),
    )


def read_vote_response(request: m.VoteRequest, response: pb.VoteResponse) -> m.VoteResponse:
    leader = response.leader
    return m.VoteResponse(
        leader.reported_by,
        request.correlation,
        leader.epoch,
        leader.id,
        response.granted,
        request.pre_vote,
        m.Refusal(response.error),
        leader.endpoint,
        directory_of(response.directory_id),
    )


def begin_response(response: m.BeginEpochResponse) -> pb.BeginEpochResponse:
    return pb.BeginEpochResponse(error=response.refusal, leader=leader_message(response))


def read_begin_response(
    request: m.BeginEpochRequest, response: pb.BeginEpochResponse
) -> m.BeginEpochResponse:
    leader = response.leader
    return m.BeginEpochResponse(
        leader.reported_by,
        request.correlation,
        leader.epoch,
        leader.id,
        m.Refusal(response.error),
        leader.endpoint,
    )


def end_response(response: m.EndEpochResponse) -> pb.EndEpochResponse:
    return pb.EndEpochResponse(error=response.refusal, leader=leader_message(response))


def read_end_response(request: m.EndEpochRequest, response: pb.EndEpochResponse) -> m.EndEpochResponse:
    leader = response.leader
    return m.EndEpochResponse(
        leader.reported_by,
        request.correlation,
        leader.epoch,
        leader.id,
        m.Refusal(response.error),
        leader.endpoint,
    )


def fetch_response(response: m.FetchResponse, records: bytes, log_start_offset: int) -> pb.FetchResponse:
    diverging, snapshot = response.diverging, response.snapshot
    return pb.FetchResponse(
        error=response.refusal,
        leader=leader_message(response),
        high_watermark=response.high_watermark,
        log_start_offset=log_start_offset,
        diverging=None if diverging is None else _position(diverging.end_offset, diverging.epoch),
        snapshot=None if snapshot is None else _position(snapshot.end_offset, snapshot.epoch),
        records=records,
    )


def read_fetch_response(request: m.FetchRequest, response: pb.FetchResponse) -> m.FetchResponse:
    """Raises CorruptMessageError when the records were damaged on the way."""
    leader, batches = response.leader, decode(response.records)
    diverging = m.EpochEnd(response.diverging.epoch, response.diverging.offset)
    snapshot = m.SnapshotId(response.snapshot.offset, response.snapshot.epoch)
    return m.FetchResponse(
        leader.reported_by,
        request.correlation,
        leader.epoch,
        leader.id,
        request.fetch_offset,
        request.last_fetched_epoch,
        response.high_watermark,
        batches[-1].end_offset if batches else request.fetch_offset,
        batches,
        diverging if response.HasField("diverging") else None,
        snapshot if response.HasField("snapshot") else None,
        m.Refusal(response.error),
        leader.endpoint,
    )


def snapshot_pieces(response: m.FetchSnapshotResponse, piece_bytes: int) -> list[pb.SnapshotChunk]:
    """The chunk cut into messages of bounded size; at least one, which carries a refusal or an empty end."""
    starts = range(0, len(response.chunk), piece_bytes) or range(1)
    return [
        pb.SnapshotChunk(
            error=response.refusal,
            leader=leader_message(response),
            snapshot=_position(response.snapshot.end_offset, response.snapshot.epoch),
            size=response.size,
            position=response.position + start,
            data=response.chunk[start : start + piece_bytes],
        )
        for start in starts
    ]


def read_snapshot_pieces(
    request: m.FetchSnapshotRequest, pieces: list[pb.SnapshotChunk]
) -> m.FetchSnapshotResponse:
    if not pieces:
        raise ValueError("the stream of a snapshot ended without a message")
    first = pieces[0]
    return m.FetchSnapshotResponse(
        first.leader.reported_by,
        request.correlation,
        first.leader.epoch,
        first.leader.id,
        m.SnapshotId(first.snapshot.offset, first.snapshot.epoch),
        first.position,
        first.size,
        b"".join(piece.data for piece in pieces),
        m.Refusal(first.error),
        first.leader.endpoint,
    )
