"""How far groups are behind, in records and in seconds. Pure.

Leaders are asked for end offsets at intervals. The answers of a partition, over time, show when each of its offsets was
the newest: between two of them it is interpolated. A group is as late as the record it has to read next is old, so what
is known of a partition answers for all groups that read it, and nothing is kept per group. For the time before the
first answer the commit is taken: a group that committed then had read all there was.
"""

from bisect import bisect_right
from collections import deque

SAMPLES_MAX = 60


class OffsetTimes:
    """When a partition ended where. Old samples are forgotten; among those kept, each says something new."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque(maxlen=SAMPLES_MAX)

    @property
    def end(self) -> int:
        """The newest end offset."""
        return self._samples[-1][0] if self._samples else 0

    def add(self, end: int, now_ms: int) -> None:
        """A leader said that its partition ends at `end`."""
        samples = self._samples
        if samples and end < samples[-1][0]:
            samples.clear()  # an unclean election, or a topic of the same name: the past says nothing any more
        if len(samples) >= 2 and samples[-1][0] == samples[-2][0] == end:
            samples[-1] = end, now_ms  # nothing was written in between: the first and the last time are enough
        else:
            samples.append((end, now_ms))

    def written_at(self, offset: int, committed_ms: int) -> int:
        """When the record at `offset` was written, as well as is known; `committed_ms` is when a group committed
        that it has to read it next."""
        samples = list(self._samples)
        after = bisect_right(samples, offset, key=lambda sample: sample[0])
        if after == len(samples):
            return samples[-1][1] if samples else committed_ms
        high, high_ms = samples[after]
        if after == 0:
            return min(committed_ms, high_ms)
        low, low_ms = samples[after - 1]
        return low_ms + (high_ms - low_ms) * (offset - low) // (high - low)

    def lag(self, offset: int) -> int:
        return max(0, self.end - offset)

    def lag_seconds(self, offset: int, committed_ms: int, now_ms: int) -> float:
        """0 for a group that has read everything."""
        if offset >= self.end:
            return 0.0
        return max(0, now_ms - self.written_at(offset, committed_ms)) / 1000
