"""The partitions of a follower's session in which nothing happens.

A follower fetches twice a second although nothing is new. Each fetch says of every partition of its session that the
follower still has all. In a partition *at rest* a fetch can say nothing else: the follower is in the committed ISR, it
has the leader's whole log, all of it is committed, and the follower knows so. Such a partition is not visited. One
value for the session, `LastFetch`, keeps the time of its last fetch. The partition's leader reads it when it needs it.

Whatever changes in the partition, or in what the follower says of it, ends its rest before anything else happens
(`Waiters.watch`, `end_rest`). Then the time is written down, and the partition is read with the others. So a leader
knows at each moment what it would know if each fetch visited each partition.
"""

from collections.abc import Iterable
from typing import Protocol

from rookery.broker.handlers.fetch_session import Session, Wanted
from rookery.broker.replication.partition import BrokerFacts, Partition
from rookery.broker.replication.replica_state import FollowerProgress, LastFetch
from rookery.broker.replication.waiters import Parked, Waiters
from rookery.core.metadata import image

LastRead = tuple[Wanted, image.Partition, int, int]
"""A partition when it was read last: what was asked for, who led, where this reader's reading ended, and how many bytes
had been appended up to there."""


class Delayed(Protocol):
    """The session's fetch that waits for data."""

    def add(self, partition: Partition, place: LastRead) -> None: ...


class PartitionsAtRest:
    """Those of one session. A change of a partition reaches it as a `Watcher`."""

    def __init__(
        self,
        session: Session,
        replica: int,
        replica_epoch: int,
        waiters: Waiters[Partition],
        brokers: BrokerFacts,
    ) -> None:
        self._session = session
        self._replica = replica
        self._replica_epoch = replica_epoch
        self._waiters = waiters
        self._brokers = brokers
        self._last_fetch = LastFetch(brokers.now_ms())
        self._resting: dict[Partition, tuple[FollowerProgress, LastRead]] = {}
        self.rest_ended = False
        """Whether a partition's rest ended since the fetch under way was read."""
        self.waiting: tuple[Delayed, Parked[Partition]] | None = None

    def __len__(self) -> int:
        return len(self._resting)

    def on_fetch(self, replica: int, replica_epoch: int, *, min_bytes: int) -> None:
        """The session's next fetch is here: it acknowledges all that rests. One that is not as those before, or comes
        from a broker that has registered anew since, is looked at partition by partition."""
        self.rest_ended = False
        registered = self._brokers.may_join(replica)
        stale = registered is not None and replica_epoch < registered
        if stale or replica != self._replica or replica_epoch != self._replica_epoch or min_bytes > 1:
            self.end()
            self._replica, self._replica_epoch = replica, replica_epoch
            self.rest_ended = False
        else:
            self._last_fetch.at_ms = self._brokers.now_ms()

    def take(self, answered: Iterable[Wanted]) -> None:
        """Let partitions rest that can. They were just answered."""
        session = self._session
        for wanted in answered:
            quiet = wanted.quiet
            if quiet is None or session.wanted.get(wanted.key) is not wanted:
                continue
            asked, partition = wanted.request, quiet.partition
            if not quiet.lasts(wanted.high_watermark, wanted.log_start_offset) or partition.offline:
                continue
            progress = quiet.leading.may_rest(
                self._replica,
                offset=asked.fetch_offset,
                log_start=asked.log_start_offset,
                broker_epoch=self._replica_epoch,
            )
            if progress is None or progress.fetched_ms < self._last_fetch.at_ms:
                continue
            self._waiters.watch(partition, self._replica, self)
            progress.resting = self._last_fetch
            self._resting[partition] = progress, (wanted, partition.state, quiet.end_offset, 0)
            del session.active[wanted.key]

    def end_rest(self, wanted: Wanted) -> None:
        """The follower asks for something else, or for nothing any more."""
        quiet = wanted.quiet
        if quiet is not None and quiet.partition in self._resting:
            self._waiters.unwatch(quiet.partition, self._replica, self)
            self.on_change(quiet.partition)

    def on_change(self, key: Partition) -> None:
        """Something happens in a partition: it is read from now on, also by a fetch that waits."""
        progress, place = self._resting.pop(key)
        if progress.resting is self._last_fetch:
            progress.end_rest()
        wanted = place[0]
        self._session.active[wanted.key] = wanted
        self.rest_ended = True
        if self.waiting is not None:
            delayed, parked = self.waiting
            delayed.add(key, place)
            self._waiters.join(parked, key)

    def end(self) -> None:
        """Nothing rests any more."""
        for partition in list(self._resting):
            self._waiters.unwatch(partition, self._replica, self)
            self.on_change(partition)
