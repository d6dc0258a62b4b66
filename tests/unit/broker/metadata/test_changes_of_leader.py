"""A broker follows the metadata log through any changes of leader: it applies what was committed, all of it, and
nothing else. Histories are drawn from a seed."""

from random import Random
from typing import Any

import pytest

from rookery.broker.metadata.follower import ForkedError, MetadataFollower, MetadataFollowerSettings
from rookery.core.metadata_log import CommittedBatch
from rookery.proto import raft_pb2 as pb
from tests.unit.broker.metadata.test_follower import batch

STEPS = 60
ROUNDS = 40
SEEDS = range(60)
NOTICED_BY = (12, 16, 30)
"""Seeds that notice the planted defect."""
Entry = tuple[int, bytes]
"""An epoch, and a value; no value for the record with which a leader begins its epoch."""


class Quorum:
    """Voters' logs as far as leaders show them. What is committed is a prefix of every later leader's log."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._logs: list[list[Entry]] = [[]]
        self.epoch = 0
        self.committed: list[Entry] = []
        self.elect()

    @property
    def log(self) -> list[Entry]:
        """The leader's."""
        return self._logs[-1]

    def elect(self) -> None:
        """A voter that has what was committed, and perhaps some of what was not, leads from now on."""
        survivors = [log for log in self._logs if log[: len(self.committed)] == self.committed]
        base = self._rng.choice(survivors)
        kept = self._rng.randint(len(self.committed), len(base))
        self.epoch += 1
        self._logs.append([*base[:kept], (self.epoch, b"")])

    def propose(self) -> None:
        self.log.append((self.epoch, b"%d of epoch %d" % (len(self.log), self.epoch)))

    def commit(self) -> None:
        """Up to some record of the leader's own epoch."""
        own = [end for end, (epoch, _) in enumerate(self.log, 1) if epoch == self.epoch and end > len(self.committed)]
        if own:
            self.committed = self.log[: self._rng.choice(own)]

    def fetch(self, offset: int, epoch: int) -> pb.FetchResponse:
        """As a leader answers whoever has records up to `offset`, the last of them of `epoch`."""
        log, high_watermark = self.log, len(self.committed)
        known = [(end, found) for end, (found, _) in enumerate(log, 1) if found <= epoch]
        end, last = known[-1] if known else (0, 0)
        if offset > 0 and (last != epoch or end < offset):
            position = pb.LogPosition(offset=end, epoch=last)
            return pb.FetchResponse(high_watermark=high_watermark, diverging=position)
        some = self._rng.randint(offset, len(log))
        parts = [batch(at, log[at][1], epoch=log[at][0], control=not log[at][1]) for at in range(offset, some)]
        return pb.FetchResponse(high_watermark=high_watermark, records=b"".join(parts))


class Applied:
    """The broker's image, as far as this matters."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def on_commit(self, batch: CommittedBatch) -> None:
        self.values += batch.values


def follow(seed: int) -> None:
    rng, applied = Random(seed), Applied()
    quorum = Quorum(rng)
    follower = MetadataFollower(MetadataFollowerSettings("c", 1, ("nowhere:1",)), applied)  # type: ignore[arg-type]

    def fetch() -> None:
        tail = follower._tail
        follower._take(quorum.fetch(tail.end_offset, tail.end_epoch))
        committed = [value for _, value in quorum.committed if value]
        assert applied.values == committed[: len(applied.values)], "something was applied that was never committed"

    for _ in range(STEPS):
        rng.choice((quorum.propose, quorum.propose, quorum.commit, quorum.elect, fetch, fetch, fetch))()
    quorum.propose()
    quorum.committed = list(quorum.log)
    for _ in range(ROUNDS):
        fetch()
    assert applied.values == [value for _, value in quorum.committed if value], "the broker asks and gets nowhere"


@pytest.mark.invariant("R6", "M12")
@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_committed_is_applied_and_nothing_else(seed: int) -> None:
    follow(seed)


def _takes_from_a_diverging_answer(follower: Any, response: Any) -> None:
    """As it was: the tail is cut by offset alone, and the high watermark counts for what is not the leader's."""
    tail = follower._tail
    if response.HasField("diverging"):
        while tail._parts and tail._parts[-1].end_offset > response.diverging.offset:
            tail.size -= tail._parts.pop().size
    tail.append(response.records)
    for found in tail.take(response.high_watermark):
        follower._listener.on_commit(found)


def _noticed(seed: int) -> bool:
    try:
        follow(seed)
    except (AssertionError, ForkedError):
        return True
    return False


@pytest.mark.parametrize("seed", NOTICED_BY)
def test_records_taken_from_a_diverging_answer_are_noticed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetadataFollower, "_take", _takes_from_a_diverging_answer)
    assert _noticed(seed)
