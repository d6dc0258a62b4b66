"""How far each replica has come, as its leader knows it."""

from collections.abc import Iterator
from dataclasses import dataclass

from rookery.controller.raft.voters import ReplicaKey, Voter, VoterSet

NEVER = float("-inf")


@dataclass(slots=True)
class Progress:
    """One replica. In an epoch an acknowledged offset never falls: what is on its disk and agrees with the
    leader's log stays, so an older request that arrives late changes nothing."""

    acknowledged: int = 0
    contact_ms: float = NEVER
    caught_up_ms: float = NEVER
    _end_at_contact: int = -1

    def fetched(self, offset: int, log_end: int, now_ms: float) -> None:
        """It has everything below `offset` on disk. It was caught up when it asked, if it wants what does
        not exist yet, and at the time of its last request, if it now has all there was then."""
        if offset >= log_end:
            self.caught_up_ms = now_ms
        elif 0 <= self._end_at_contact <= offset:
            self.caught_up_ms = max(self.caught_up_ms, self.contact_ms)
        self.acknowledged = max(self.acknowledged, offset)
        self._end_at_contact = log_end
        self.contact_ms = now_ms


class ProgressTable:
    """The progress of voters and observers, by node and disk; bounded in observers."""

    def __init__(self, observers_max: int) -> None:
        self._observers_max = observers_max
        self._table: dict[ReplicaKey, Progress] = {}

    def __iter__(self) -> Iterator[tuple[ReplicaKey, Progress]]:
        return iter(self._table.items())

    def of(self, key: ReplicaKey) -> Progress | None:
        return self._table.get(key)

    def of_voter(self, voter: Voter) -> Progress | None:
        """A voter whose disk is not known yet is the replica with its node id that sent the last request."""
        if voter.pinned:
            return self._table.get(voter.key)
        same_id = [progress for key, progress in self._table.items() if key.id == voter.id]
        return max(same_id, key=lambda progress: progress.contact_ms, default=None)

    def touch(self, key: ReplicaKey, voters: VoterSet, silent_since_ms: float) -> Progress:
        """The entry of `key`, which has just sent a request; a new one may push an old observer out."""
        progress = self._table.get(key)
        if progress is None:
            self._forget_observers(voters, silent_since_ms)
            progress = self._table[key] = Progress()
        return progress

    def _forget_observers(self, voters: VoterSet, silent_since_ms: float) -> None:
        observers = [(progress.contact_ms, key) for key, progress in self._table.items() if key not in voters]
        excess = len(observers) - self._observers_max + 1
        for rank, (contact_ms, key) in enumerate(sorted(observers)):
            if contact_ms < silent_since_ms or rank < excess:
                del self._table[key]
