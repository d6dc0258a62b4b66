"""The leader's view of its followers: their progress, the high watermark, and who is in sync.

Pure: time comes in as milliseconds, facts about brokers come in as arguments, and what should happen comes out as
values: each event returns whether the high watermark moved, and those that may change the ISR the proposal that the
caller sends to the controller. One `LeaderState` lives for one leader epoch of one partition.

Rules of this file
- The high watermark is the least log end over the *maximal* ISR: the committed one and a replica whose entry has
  been proposed. A proposed removal is not assumed until it is committed. It also waits for a replica outside
  the ISR that has caught up and may join, so that joining never has to chase it.
- It stands still while the committed ISR is smaller than min.insync.replicas, and never falls.
- At most one change of the ISR is under way; it is settled by the metadata log, not by the reply to the request.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

NEVER = -(2**62)


@dataclass(slots=True)
class LastFetch:
    """When a follower last fetched. It is shared by all partitions in which nothing has changed since: one fetch
    acknowledges them all."""

    at_ms: int


@dataclass(slots=True)
class FollowerProgress:
    """What the leader knows of one follower, all of it learnt from the follower's fetches."""

    log_end: int = -1
    """Where the follower's log ended when it fetched last; -1: it has not fetched in this epoch."""
    log_start: int = 0
    broker_epoch: int = -1
    fetched_ms: int = NEVER
    leader_end_at_fetch: int = -1
    caught_up_ms: int = NEVER
    """The last moment at which it is known to have had all that the leader had then."""
    resting: LastFetch | None = None
    """Set while the follower has all, so that each of its fetches only says so again."""

    @property
    def last_fetch_ms(self) -> int:
        """When it last fetched, or was trusted as a member of the ISR."""
        own = max(self.fetched_ms, self.caught_up_ms)
        return own if self.resting is None else max(own, self.resting.at_ms)

    def had_all_ms(self) -> int:
        return self.caught_up_ms if self.resting is None else max(self.caught_up_ms, self.resting.at_ms)

    def end_rest(self) -> None:
        """It rests no longer: apply what its fetches acknowledged meanwhile."""
        resting = self.resting
        if resting is not None:
            self.resting = None
            self.fetched_ms = max(self.fetched_ms, resting.at_ms)
            self.caught_up_ms = max(self.caught_up_ms, resting.at_ms)

    def on_fetch(
        self, *, offset: int, log_start: int, broker_epoch: int, leader_end: int, now_ms: int
    ) -> None:
        self.end_rest()
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self.leader_end_at_fetch >= 0 and offset >= self.leader_end_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end = offset
        self.log_start = log_start
        self.broker_epoch = broker_epoch
        self.leader_end_at_fetch = leader_end
        self.fetched_ms = now_ms

    def in_time(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        """Whether it has everything now, or had everything not too long ago."""
        return self.log_end == leader_end or now_ms - self.had_all_ms() <= lag_ms_max


@dataclass(frozen=True, slots=True)
class Committed:
    """The ISR as the metadata log has it."""

    isr: frozenset[int]
    partition_epoch: int

    @property
    def maximal(self) -> frozenset[int]:
        return self.isr


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of the ISR to be asked of the controller, valid only for this leader and partition epoch."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class PendingExpand:
    """A replica's entry was proposed: it counts already."""

    committed: Committed
    joining: int
    sent: Proposal
    """What was proposed, whatever its members do meanwhile: the answer is about this and nothing else."""

    @property
    def maximal(self) -> frozenset[int]:
        return self.committed.isr | {self.joining}


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """The removal of replicas was proposed: they still count."""

    committed: Committed
    sent: Proposal

    @property
    def maximal(self) -> frozenset[int]:
        return self.committed.isr


class Decision(NamedTuple):
    """What follows from an event that may change the ISR."""

    watermark_moved: bool
    proposal: Proposal | None = None
    """To be sent to the controller. It is pending from now on, until the metadata log or a refusal ends it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings of a leader."""

    min_insync_replicas: int
    lag_ms_max: int


NOTHING = Decision(watermark_moved=False)
MayJoin = Callable[[int], int | None]
"""The registered epoch of a broker that is alive and not stopping; None for every other."""


@dataclass(slots=True)
class LeaderState:
    """One partition as its leader sees it, for one leader epoch."""

    me: int
    my_broker_epoch: int
    leader_epoch: int
    epoch_start: int
    """Where the log ended when this epoch began."""
    replicas: tuple[int, ...]
    isr: Committed | PendingExpand | PendingShrink
    terms: Terms
    log_end: int
    high_watermark: int
    followers: dict[int, FollowerProgress] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.followers = {node: FollowerProgress() for node in self.replicas if node != self.me}

    @classmethod
    def begin(
        cls,
        *,
        me: int,
        my_broker_epoch: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        terms: Terms,
        log_end: int,
        high_watermark: int,
        now_ms: int,
    ) -> "LeaderState":
        """A new leader trusts the ISR it was elected from: its members get the full lag time from now."""
        state = cls(
            me=me,
            my_broker_epoch=my_broker_epoch,
            leader_epoch=leader_epoch,
            epoch_start=log_end,
            replicas=tuple(replicas),
            isr=Committed(frozenset(isr), partition_epoch),
            terms=terms,
            log_end=log_end,
            high_watermark=high_watermark,
        )
        for node in state.isr.maximal - {me}:
            if node in state.followers:
                state.followers[node].caught_up_ms = now_ms
        return state

    # --- reading --------------------------------------------------------------------------------------------

    @property
    def committed(self) -> Committed:
        return self.isr if isinstance(self.isr, Committed) else self.isr.committed

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, but never more than there are replicas."""
        return min(self.terms.min_insync_replicas, len(self.replicas))

    @property
    def under_min_isr(self) -> bool:
        return len(self.committed.isr) < self.min_isr

    @property
    def readable_latest(self) -> bool:
        """Whether the high watermark has reached this epoch: before, it may lie below what was already shown."""
        return self.high_watermark >= self.epoch_start

    def misses_one(self, now_ms: int, silent_ms_max: int) -> bool:
        """Whether a follower in sync has not fetched for longer than that: without it nothing is committed."""
        fetched = (
            follower.last_fetch_ms
            for node, follower in self.followers.items()
            if node in self.committed.isr
        )
        return any(now_ms - at_ms > silent_ms_max for at_ms in fetched)

    def lag(self, node: int) -> int:
        """Records a follower is behind; all of them if it has not fetched yet."""
        return self.log_end - max(self.followers[node].log_end, 0)

    def followers_with(self, offset: int, now_ms: int) -> Iterator[tuple[int, int, int]]:
        """Followers in sync that have the record at `offset`, or will have it next: where their log ends, and since
        how many milliseconds they have not had all."""
        for node, follower in self.followers.items():
            if node in self.committed.isr and follower.log_start <= offset <= follower.log_end:
                yield node, follower.log_end, now_ms - follower.had_all_ms()

    def low_watermark(self, log_start: int) -> int:
        """The least offset that an in-sync replica still has; the leader's own log begins at `log_start`."""
        in_sync = (follower.log_start for node, follower in self.followers.items() if node in self.committed.isr)
        return min((log_start, *in_sync))

    # --- events ---------------------------------------------------------------------------------------------

    def on_append(self, log_end: int, now_ms: int, may_join: MayJoin) -> bool:
        """The leader's own log counts up to `log_end`, if not further: a late report of what is on the device takes
        nothing back. Returns whether the high watermark moved."""
        if log_end > self.log_end:
            self.log_end = log_end
        return self._advance(now_ms, may_join)

    def on_terms(self, terms: Terms, now_ms: int, may_join: MayJoin) -> bool:
        """The settings have changed. Returns whether the high watermark moved."""
        self.terms = terms
        return self._advance(now_ms, may_join)

    def on_append_alone(self, log_end: int) -> None:
        """The same where there is no other replica: all that is written is committed."""
        if log_end > self.log_end:
            self.log_end = log_end
        self.high_watermark = self.log_end

    def on_follower_fetch(
        self, node: int, *, offset: int, log_start: int, broker_epoch: int, now_ms: int, may_join: MayJoin
    ) -> Decision:
        """A follower asked for `offset`: all below it is on its disk."""
        follower = self.followers.get(node)
        if follower is None:
            return NOTHING
        follower.on_fetch(
            offset=offset,
            log_start=log_start,
            broker_epoch=broker_epoch,
            leader_end=self.log_end,
            now_ms=now_ms,
        )
        isr = self.isr
        if offset == self.log_end == self.high_watermark and isinstance(isr, Committed) and node in isr.isr:
            return NOTHING  # it is in sync and has all, and all is committed: as in every idle partition
        proposal = self._propose_entry(node, may_join)
        return Decision(self._advance(now_ms, may_join), proposal)

    def may_rest(self, node: int, *, offset: int, log_start: int, broker_epoch: int) -> FollowerProgress | None:
        """The follower's progress, if a further fetch that says the same would change nothing but the time at which it
        last fetched: it is in sync and has all, and all is committed."""
        follower, isr = self.followers.get(node), self.isr
        if (
            follower is not None
            and offset == follower.log_end == self.log_end == self.high_watermark
            and isinstance(isr, Committed)
            and node in isr.isr
            and log_start == follower.log_start
            and broker_epoch == follower.broker_epoch
        ):
            return follower
        return None

    def on_tick(self, now_ms: int, may_join: MayJoin) -> Decision:
        """Time passed: members that have been behind for too long are to leave."""
        proposal = None
        if isinstance(self.isr, Committed):
            late = frozenset(
                node
                for node in self.isr.isr - {self.me}
                if node not in self.followers
                or not self.followers[node].in_time(self.log_end, now_ms, self.terms.lag_ms_max)
            )
            if late:
                proposal = self._proposal(self.isr, self.isr.isr - late)
                self.isr = PendingShrink(self.isr, proposal)
        return Decision(self._advance(now_ms, may_join), proposal)

    def on_committed(
        self,
        *,
        isr: Iterable[int],
        replicas: Iterable[int],
        partition_epoch: int,
        now_ms: int,
        may_join: MayJoin,
    ) -> bool:
        """The metadata log has a newer state of the partition in this same leader epoch: what was proposed is settled.
        Returns whether the high watermark moved."""
        if partition_epoch <= self.committed.partition_epoch:
            return False
        self.replicas = tuple(replicas)
        for node in self.replicas:
            if node != self.me and node not in self.followers:
                self.followers[node] = FollowerProgress()
        for node in [node for node in self.followers if node not in self.replicas]:
            del self.followers[node]
        self.isr = Committed(frozenset(isr), partition_epoch)
        return self._advance(now_ms, may_join)

    def on_refused(self, proposal: Proposal, now_ms: int, may_join: MayJoin) -> bool:
        """The controller did not take the proposal and never will: back to what is committed, unless another is
        under way. Any other failure leaves it pending until the metadata log shows how it ended. Returns whether the
        high watermark moved."""
        if self.pending_proposal() != proposal:
            return False
        self.isr = self.committed
        return self._advance(now_ms, may_join)

    def pending_proposal(self) -> Proposal | None:
        """The proposal under way, to be sent again after a failure that passes."""
        return None if isinstance(self.isr, Committed) else self.isr.sent

    # --- decisions ------------------------------------------------------------------------------------------

    def _propose_entry(self, node: int, may_join: MayJoin) -> Proposal | None:
        if not isinstance(self.isr, Committed) or node in self.isr.isr or not self._eligible(node, may_join):
            return None
        follower = self.followers[node]
        if follower.log_end < self.high_watermark or follower.log_end < self.epoch_start:
            return None
        proposal = self._proposal(self.isr, self.isr.isr | {node})
        self.isr = PendingExpand(self.isr, node, proposal)
        return proposal

    def _eligible(self, node: int, may_join: MayJoin) -> bool:
        """Alive, not stopping, and the very incarnation that is registered."""
        registered = may_join(node)
        return registered is not None and self.followers[node].broker_epoch == registered

    def _proposal(self, committed: Committed, isr: frozenset[int]) -> Proposal:
        members = tuple(node for node in self.replicas if node in isr)
        return Proposal(
            isr=members,
            broker_epochs=tuple(self._broker_epoch(node) for node in members),
            leader_epoch=self.leader_epoch,
            partition_epoch=committed.partition_epoch,
        )

    def _broker_epoch(self, node: int) -> int:
        return self.my_broker_epoch if node == self.me else self.followers[node].broker_epoch

    def _advance(self, now_ms: int, may_join: MayJoin) -> bool:
        """Raise the high watermark if all that must have the records have them; whether it moved."""
        if self.under_min_isr:
            return False
        reached = self.log_end
        maximal = self.isr.maximal
        for node, follower in self.followers.items():
            waited_for = node in maximal or (
                follower.in_time(self.log_end, now_ms, self.terms.lag_ms_max)
                and self._eligible(node, may_join)
            )
            if waited_for and follower.log_end < reached:
                reached = follower.log_end
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True
