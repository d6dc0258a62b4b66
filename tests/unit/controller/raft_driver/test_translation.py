"""Raft's messages survive the way over protobuf."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from rookery.controller.raft import messages as m
from rookery.controller.raft import translation as to_wire
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey
from rookery.core.errors import CorruptMessageError
from rookery.core.metadata.features import RELEASE
from rookery.core.metadata_log import SnapshotId
from rookery.proto import raft_pb2 as pb
from tests.unit.controller.raft_driver.test_batches import BATCHES, as_bytes

ME, YOU = ReplicaKey(1, UUID(int=11)), ReplicaKey(2, UUID(int=22))
TO = YOU.id
CALLER = to_wire.CallerIdentity("c", ME, 1, RELEASE.features)


def sent(message: Any) -> Any:
    """What the other side reads from the bytes."""
    return type(message).FromString(message.SerializeToString())


VOTE = m.VoteRequest(1, 5, 7, ME, YOU, 6, 100, True)
BEGIN = m.BeginEpochRequest(1, 5, 7, ME, ReplicaKey(2, UNKNOWN_DIRECTORY), "host:1")
END = m.EndEpochRequest(1, 5, 7, 1, (YOU, ReplicaKey(3, UUID(int=33))))
FETCH = m.FetchRequest(1, 5, 7, ME, 100, 6, 90, 400)
SNAPSHOT = m.FetchSnapshotRequest(1, 5, 7, ME, SnapshotId(50, 4), 4096)


def test_requests_come_back() -> None:
    assert to_wire.read_vote_request(sent(to_wire.vote_request(CALLER, VOTE, TO)), 5) == VOTE
    assert to_wire.read_begin_request(sent(to_wire.begin_request(CALLER, BEGIN, TO)), 5) == BEGIN
    assert to_wire.read_end_request(sent(to_wire.end_request(CALLER, END, TO)), 5) == END
    fetch = sent(to_wire.fetch_request(CALLER, FETCH, TO, 1))
    assert to_wire.read_fetch_request(fetch, 5, 500) == FETCH
    assert to_wire.features_of(fetch) == RELEASE.features
    assert to_wire.read_snapshot_request(sent(to_wire.snapshot_request(CALLER, SNAPSHOT, TO)), 5) == SNAPSHOT


def test_a_caller_cannot_have_its_fetch_held_for_longer_than_allowed() -> None:
    for wanted, given in ((1_000_000, 500), (-7, 0)):
        request = to_wire.fetch_request(CALLER, replace(FETCH, max_wait_ms=wanted), TO, 1)
        assert to_wire.read_fetch_request(sent(request), 5, 500).max_wait_ms == given


def test_responses_come_back() -> None:
    vote = m.VoteResponse(2, 5, 7, -1, True, True)
    assert to_wire.read_vote_response(VOTE, sent(to_wire.vote_response(vote))) == vote
    begin = m.BeginEpochResponse(2, 5, 7, 3, m.Refusal.FENCED_LEADER_EPOCH, "host:3")
    assert to_wire.read_begin_response(BEGIN, sent(to_wire.begin_response(begin))) == begin
    end = m.EndEpochResponse(2, 5, 7, -1)
    assert to_wire.read_end_response(END, sent(to_wire.end_response(end))) == end


def test_fetched_records_come_back() -> None:
    empty = m.FetchResponse(2, 5, 7, 2, 100, 6, 95, 100)
    assert to_wire.read_fetch_response(FETCH, sent(to_wire.fetch_response(empty, b"", 0))) == empty
    diverging = replace(empty, diverging=m.EpochEnd(4, 80))
    assert to_wire.read_fetch_response(FETCH, sent(to_wire.fetch_response(diverging, b"", 0))) == diverging
    snapshot = replace(empty, snapshot=SnapshotId(0, 0))
    assert to_wire.read_fetch_response(FETCH, sent(to_wire.fetch_response(snapshot, b"", 0))) == snapshot
    full = to_wire.read_fetch_response(FETCH, sent(to_wire.fetch_response(empty, as_bytes(), 0)))
    assert [batch.base_offset for batch in full.batches] == [batch.base_offset for batch in BATCHES]
    assert full.read_until == BATCHES[-1].end_offset
    damaged = to_wire.fetch_response(empty, as_bytes()[:-1], 0)
    with pytest.raises(CorruptMessageError):
        to_wire.read_fetch_response(FETCH, sent(damaged))


@pytest.mark.parametrize("size", [0, 1, 1000, 1001, 5000])
def test_a_chunk_goes_in_pieces_of_bounded_size(size: int) -> None:
    response = m.FetchSnapshotResponse(2, 5, 7, 2, SnapshotId(50, 4), 4096, 99_999, bytes(range(250)) * (size // 250))
    pieces = [sent(piece) for piece in to_wire.snapshot_pieces(response, 1000)]
    assert all(len(piece.data) <= 1000 for piece in pieces)
    assert to_wire.read_snapshot_pieces(SNAPSHOT, pieces) == response


def test_nonsense_is_named() -> None:
    with pytest.raises(ValueError, match="ended without a message"):
        to_wire.read_snapshot_pieces(SNAPSHOT, [])
    with pytest.raises(ValueError, match="12345"):
        to_wire.read_vote_response(VOTE, pb.VoteResponse(error=12345))
    with pytest.raises(ValueError, match="16"):
        to_wire.read_vote_request(pb.VoteRequest(caller=pb.Caller(directory_id=b"123")), 1)
