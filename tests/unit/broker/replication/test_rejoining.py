"""Replicas that come back to their leader after something went wrong, and one that fails beside others."""

from pathlib import Path
from typing import Any

import pytest

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import Isolation
from rookery.core.log import LogDirFailed
from tests.unit.broker.log.batches import batch
from tests.unit.broker.replication.pair import LEADER, led, running_pair
from tests.unit.broker.waiting import until


@pytest.mark.invariant("P7")
async def test_a_replica_that_slept_through_an_unclean_election_joins_again(tmp_path: Path) -> None:
    """It knows more to be committed than its leader has, and the leader has recovered since."""
    async with running_pair(tmp_path, TopicLogConfig()) as pair:
        leader = pair.leader()
        follower = await pair.follow()
        pair.fetcher.unfollow(follower.topic_id, follower.index)
        ahead = batch(8)
        ahead[12:16] = (1).to_bytes(4, "big")  # its leader epoch, as the leader of that time wrote it
        follower.apply_fetched(ahead, high_watermark=8, leader_log_start=0, now_ms=0)
        leader.apply(led(isr=(LEADER,), epoch=2))
        pair.produce(3)
        follower.apply(led(isr=(LEADER,), epoch=2))
        pair.fetcher.follow(follower)
        await until(lambda: follower.log.end_offset == leader.log.end_offset == 3)
        leader.apply(led(epoch=2)._replace(partition_epoch=3))
        pair.produce(1)
        await pair.replicated()
        assert pair.failed == []


async def test_a_cut_that_failed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason may pass; nobody else would take the replica up again before the next epoch."""
    async with running_pair(tmp_path, TopicLogConfig()) as pair:
        pair.produce(5)
        pair.leader().log.delete_records(3)
        restart_at, failures = pair.dirs.restart_at, 2

        async def fail(*args: Any) -> None:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise RuntimeError("a bug")
            await restart_at(*args)

        monkeypatch.setattr(pair.dirs, "restart_at", fail)
        follower = await pair.follow()
        pair.produce(1)
        await pair.replicated()
        assert (follower.log.start_offset, follower.log.end_offset, len(pair.failed)) == (3, 6, 2)


async def test_a_follower_that_was_cut_learns_what_is_committed(tmp_path: Path) -> None:
    """The answer that told where to cut told nothing else."""
    async with running_pair(tmp_path, TopicLogConfig()) as pair:
        leader, follower = pair.leader(), await pair.follow(state=led(isr=(LEADER,)))
        pair.fetcher.unfollow(follower.topic_id, follower.index)
        pair.produce(3)
        common = bytes(leader.read(0, 1 << 20, Isolation.LOG_END, min_one=True).data)
        follower.apply_fetched(common, high_watermark=0, leader_log_start=0, now_ms=0)
        ahead = batch(1)
        ahead[0:8], ahead[12:16] = (3).to_bytes(8, "big"), (1).to_bytes(4, "big")
        follower.apply_fetched(ahead, high_watermark=0, leader_log_start=0, now_ms=0)
        leader.apply(led(isr=(LEADER,), epoch=2))
        follower.apply(led(isr=(LEADER,), epoch=2))
        pair.fetcher.follow(follower)
        await until(lambda: follower.log.end_offset == follower.log.high_watermark == 3)


@pytest.mark.parametrize("error", [RuntimeError("a bug"), LogDirFailed("writing", "x", OSError("no"))])
async def test_a_partition_that_cannot_apply_its_records_does_not_hold_up_the_others(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on itself when it can."""
    async with running_pair(tmp_path, TopicLogConfig(), partitions=2) as pair:
        broken, fine = await pair.follow(0), await pair.follow(1)

        def fail(*_: Any) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(broken.log, "append_as_follower", fail)
            for index in (0, 1, 0, 1):
                pair.produce(5, index=index)
            await pair.replicated(1)
            assert (broken.log.end_offset, fine.log.end_offset) == (0, 10)
        await pair.replicated(0)
