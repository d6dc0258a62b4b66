"""One replica that cannot say where it stands does not hold up the others that follow the same leader."""

from pathlib import Path

import pytest

from rookery.broker.log.config import TopicLogConfig
from rookery.core.log import LogCorrupt
from rookery.core.log.log import Log
from tests.unit.broker.replication.pair import running_pair


@pytest.mark.invariant("S3")
async def test_a_replica_with_a_damaged_history_does_not_stop_the_fetching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[LogCorrupt] = []
    async with running_pair(tmp_path, TopicLogConfig(), partitions=2) as pair:
        damaged = await pair.follow(0)
        damaged.log.on_damage = found.append
        whole = Log.epochs

        def epochs(log: Log) -> object:
            if log is damaged.log.segment_log:
                raise LogCorrupt(log.active.log_path, 0, "a batch cannot have length 0")
            return whole.__get__(log)

        monkeypatch.setattr(Log, "epochs", property(epochs))
        pair.fetcher._session.reset()
        await pair.follow(1)
        pair.produce(5, index=1)
        await pair.replicated(1)
        assert found, "and the damage is known"
        assert list(pair.fetcher.lags().values()) == [0, 0]
        monkeypatch.undo()
        pair.produce(5, index=0)
        await pair.replicated(0)
