"""The assignor `uniform`: members get equally many partitions, and keep what they had as far as that allows.

Members that all subscribe to the same topics get a quota each. Where subscriptions differ, partitions nobody has go to
the least loaded subscriber, then partitions move from the most to the least loaded subscribers of a topic while that
helps. Racks do not count.
"""

from uuid import UUID

from rookery.broker.groups.assignors.spec import Assignment, GroupSpec
from rookery.broker.groups.consumer.member import TopicIdPartition

ROUNDS_MAX = 16
"""Of balancing: subscriptions that overlap in part may need many, each of which helps less."""
UNOWNED = -1


def assign(spec: GroupSpec) -> Assignment:
    if not spec.members:
        return {}
    if not spec.topics:
        return {id: frozenset() for id in spec.members}
    return _by_quota(spec) if spec.homogeneous else _Balance(spec).assign()


def _by_quota(spec: GroupSpec) -> Assignment:
    """Everybody gets total/members, and total%members of them one more: those whose old partitions fill it."""
    unassigned = [
        TopicIdPartition(topic_id, index)
        for topic_id, count in spec.topics.items()
        for index in range(count)
        if TopicIdPartition(topic_id, index) not in spec.taken
    ]
    share, extras = divmod(sum(spec.topics.values()), len(spec.members))
    kept: dict[str, list[TopicIdPartition]] = {}
    room: list[tuple[str, int]] = []
    for number, (id, member) in enumerate(spec.members.items()):
        has_extra = extras > 0
        quota = share + has_extra
        keeps: list[TopicIdPartition] = []
        for topic_id, indexes in member.before.items():
            count = spec.topics.get(topic_id)
            if count is None:
                continue
            held = [TopicIdPartition(topic_id, index) for index in indexes]
            keeps += held[:quota]
            unassigned += held[quota:]
            quota -= min(quota, len(held))
        members_left = len(spec.members) - number
        if quota > 0 and has_extra and members_left > extras:
            quota -= 1  # another member may fill the extra place with what it has
            has_extra = False
        extras -= has_extra
        if quota > 0:
            room.append((id, quota))
        kept[id] = keeps
    given = iter(unassigned)
    for id, quota in room:
        kept[id] += [place for _, place in zip(range(quota), given, strict=False)]
    return {id: frozenset(places) for id, places in kept.items()}


class _Balance:
    """Members are numbers, in the order of the input."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._ids = list(spec.members)
        self._load = [0] * len(self._ids)
        self._subscribers: dict[UUID, list[int]] = {topic_id: [] for topic_id in spec.topics}
        for number, member in enumerate(spec.members.values()):
            for topic_id in member.topics:
                if topic_id in self._subscribers:
                    self._subscribers[topic_id].append(number)
        self._owners: dict[UUID, list[int]] = {
            topic_id: [UNOWNED] * count for topic_id, count in spec.topics.items() if self._subscribers[topic_id]
        }

    def assign(self) -> Assignment:
        self._keep()
        in_order = sorted(self._owners, key=self._rank)
        for topic_id in in_order:
            self._hand_out(topic_id)
        self._balance([topic_id for topic_id in in_order if len(self._subscribers[topic_id]) > 1])
        given: dict[str, list[TopicIdPartition]] = {id: [] for id in self._ids}
        for topic_id, owners in self._owners.items():
            for index, owner in enumerate(owners):
                given[self._ids[owner]].append(TopicIdPartition(topic_id, index))
        return {id: frozenset(places) for id, places in given.items()}

    def _rank(self, topic_id: UUID) -> tuple[float, int, int]:
        """Topics with many partitions for each subscriber come first. Ids stand in the order of Java's: two signed
        halves."""
        subscribers = len(self._subscribers[topic_id])
        return (-self._spec.topics[topic_id] / subscribers, subscribers, topic_id.int ^ _SIGNS)

    def _keep(self) -> None:
        for number, member in enumerate(self._spec.members.values()):
            for topic_id, indexes in member.before.items():
                owners = self._owners.get(topic_id)
                if owners is None or topic_id not in member.topics:
                    continue
                for index in indexes:
                    if index < len(owners):
                        owners[index] = number
                        self._load[number] += 1

    def _hand_out(self, topic_id: UUID) -> None:
        owners = self._owners[topic_id]
        missing = [index for index, owner in enumerate(owners) if owner == UNOWNED]
        if missing:
            levels = _Levels(self._subscribers[topic_id], self._load)
            for index in missing:
                self._give(owners, index, levels.least())

    def _give(self, owners: list[int], index: int, to: int) -> None:
        before = owners[index]
        if before != UNOWNED:
            self._load[before] -= 1
        owners[index] = to
        self._load[to] += 1

    def _balance(self, topics: list[UUID]) -> None:
        """Until a whole round moved nothing."""
        last_moved: UUID | None = None
        for _ in range(ROUNDS_MAX):
            for topic_id in topics:
                if topic_id == last_moved:
                    return
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _balance_topic(self, topic_id: UUID) -> bool:
        owners = self._owners[topic_id]
        levels = _Levels(self._subscribers[topic_id], self._load)
        if levels.spread <= 1:
            return False
        spare: dict[int, list[int]] = {}
        """What each member could give, the last one first."""
        for index, owner in enumerate(owners):
            spare.setdefault(owner, []).append(index)
        moved = False
        while not levels.balanced:
            giver = levels.most()
            while giver is not None and not spare.get(giver):
                levels.exclude_most()
                giver = levels.most()
            if giver is None:
                break
            index = spare[giver].pop()
            taker = levels.least()
            if levels.balanced:
                break
            self._give(owners, index, taker)
            moved = True
        return moved


class _Levels:
    """The subscribers of a topic by load. Two groups of equally loaded ones move towards each other: the least loaded
    get partitions in turn and rise together, the most loaded lose them in turn and sink together."""

    def __init__(self, members: list[int], load: list[int]) -> None:
        self._load = load
        self._sorted = sorted(members, key=lambda number: (load[number], number))
        lowest, highest = load[self._sorted[0]], load[self._sorted[-1]]
        self.spread = highest - lowest
        self._low_end = 0
        self._low_level = lowest - 1
        self._next_low = 0
        self._high_start = self._high_end = len(self._sorted)
        self._high_level = highest + 1
        self._next_high = len(self._sorted) - 1

    @property
    def balanced(self) -> bool:
        return self._high_level - self._low_level <= 1

    def least(self) -> int:
        """The next to get a partition."""
        if self._next_low >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._sorted) and self._loaded(self._low_end) == self._low_level:
                self._low_end += 1
            self._next_low = 0
        number = self._sorted[self._next_low]
        self._next_low += 1
        return number

    def most(self) -> int | None:
        """The next to lose a partition; None where nobody has any to lose."""
        if self._next_high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = self._loaded(self._high_start - 1)
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._loaded(self._high_start - 1) == self._high_level:
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return None
        number = self._sorted[self._next_high]
        self._next_high -= 1
        return number

    def exclude_most(self) -> None:
        """The member `most` returned last has nothing to give of this topic."""
        at, last = self._next_high + 1, self._high_end - 1
        self._sorted[at], self._sorted[last] = self._sorted[last], self._sorted[at]
        self._high_end = last

    def _loaded(self, position: int) -> int:
        return self._load[self._sorted[position]]


_SIGNS = (1 << 127) | (1 << 63)
"""Flipped, signed halves sort like unsigned ones."""
