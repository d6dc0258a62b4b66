"""How a node answers its peers, its brokers and people (the port `service.Answers`)."""

import asyncio
from collections.abc import Callable

from rookery.controller.raft import messages as m
from rookery.controller.raft.batches import directory_bytes
from rookery.controller.raft.describe import QuorumDescription, ReplicaDescription
from rookery.controller.raft.errors import (
    InvalidVoterChangeError,
    NotCaughtUpError,
    NotLeaderError,
    NotReadyError,
)
from rookery.controller.raft.ready import Ready
from rookery.controller.raft.running import Running
from rookery.controller.raft.service import Ask
from rookery.controller.raft.settings import RaftSettings
from rookery.controller.raft.voters import ReplicaKey, Voter
from rookery.core.errors import (
    DuplicateVoterError,
    InvalidRequestError,
    NotControllerError,
    RequestTimedOutError,
    VoterNotFoundError,
)
from rookery.proto import raft_pb2 as pb

RETRY_S = 0.05
_NEVER_MS = -1


class NodeAnswers:
    def __init__(self, settings: RaftSettings, running: Callable[[], Running]) -> None:
        """`running` raises NotServingError while the node is not."""
        self._settings = settings
        self._running = running

    async def ask(self, request: Ask) -> m.Response:
        running = self._running()
        answer = await running.calls.answer(_step(running, request), timeout_s=self._patience_s())
        return answer.response

    async def fetch(self, request: Ask, *, held_ms: int, max_bytes: int) -> tuple[m.FetchResponse, bytes, int]:
        running = self._running()
        answer = await running.calls.answer(
            _step(running, request), timeout_s=self._patience_s() + held_ms / 1000, max_bytes=max_bytes
        )
        if not isinstance(answer.response, m.FetchResponse):
            raise TypeError(f"the core answered a fetch with {type(answer.response).__name__}")
        return answer.response, answer.records, running.engine.storage.start_offset

    async def add_voter(self, voter: Voter, timeout_ms: int) -> None:
        running = self._running()
        if not voter.pinned or not voter.endpoint:
            raise InvalidRequestError(f"voter {voter.id} needs a directory id and an address")
        await self._change(running, lambda now: running.engine.core.add_voter(voter, now), timeout_ms)

    async def remove_voter(self, key: ReplicaKey, timeout_ms: int) -> None:
        running = self._running()
        await self._change(running, lambda now: running.engine.core.remove_voter(key, now), timeout_ms)

    def describe(self) -> pb.DescribeQuorumResponse:
        running = self._running()
        engine = running.engine
        now_ms = engine.now_ms()
        found = engine.core.describe(now_ms)
        wall_offset_ms = running.clock.wall_ms() - now_ms
        least, most = self._settings.release.rpc_range
        return pb.DescribeQuorumResponse(
            leader=self.leader_hint(),
            high_watermark=found.high_watermark,
            voters=_voters(found, wall_offset_ms),
            observers=[_replica(replica, "", wall_offset_ms) for replica in found.observers],
            cluster_id=self._settings.cluster_id,
            min_version=least,
            max_version=most,
        )

    def leader_hint(self) -> pb.Leader:
        replica = self._running().engine.core.replica
        return pb.Leader(
            id=replica.leader_id,
            epoch=replica.epoch,
            endpoint=replica.leader_endpoint,
            told_by=replica.me.id,
        )

    def votes(self, node_id: int) -> bool:
        return self._running().engine.core.voters.get(node_id) is not None

    def _patience_s(self) -> float:
        return self._settings.raft.request_timeout_ms / 1000

    async def _change(
        self, running: Running, change: Callable[[float], tuple[int, Ready]], timeout_ms: int
    ) -> None:
        """Make a change of the voters and wait for its commit, all within the timeout."""
        engine, deadline_ms = running.engine, running.engine.now_ms() + timeout_ms
        while True:
            try:
                offset, ready = engine.guard(lambda: change(engine.now_ms()))
                break
            except NotLeaderError as error:
                raise NotControllerError(str(error)) from error
            except InvalidVoterChangeError as error:
                kind = DuplicateVoterError if "already" in str(error) else VoterNotFoundError
                raise kind(str(error)) from error
            except (NotReadyError, NotCaughtUpError) as error:
                if engine.now_ms() >= deadline_ms:
                    raise RequestTimedOutError(str(error)) from error
                await asyncio.sleep(RETRY_S)
        engine.take(ready)
        await running.commits.wait(offset, max(deadline_ms - engine.now_ms(), 1) / 1000)


def _step(running: Running, request: Ask) -> Callable[[int], None]:
    def step(correlation: int) -> None:
        message = request(correlation)
        running.engine.input(lambda now_ms: running.engine.core.step(message, now_ms))

    return step


def _voters(found: QuorumDescription, wall_offset_ms: float) -> list[pb.Replica]:
    """What the leader knows of each voter; elsewhere only who they are."""
    endpoints = {voter.id: voter.endpoint for voter in found.voter_set}
    unknown = float("-inf")
    known = found.voters or [ReplicaDescription(v.key, -1, unknown, unknown) for v in found.voter_set]
    return [_replica(replica, endpoints.get(replica.key.id, ""), wall_offset_ms) for replica in known]


def _replica(replica: ReplicaDescription, endpoint: str, wall_offset_ms: float) -> pb.Replica:
    return pb.Replica(
        id=replica.key.id,
        directory_id=directory_bytes(replica.key.directory_id),
        endpoint=endpoint,
        log_end_offset=replica.log_end_offset,
        last_fetch_ms=_wall(replica.last_fetch_ms, wall_offset_ms),
        last_caught_up_ms=_wall(replica.last_caught_up_ms, wall_offset_ms),
    )


def _wall(at_ms: float, wall_offset_ms: float) -> int:
    return _NEVER_MS if at_ms == float("-inf") else round(at_ms + wall_offset_ms)
