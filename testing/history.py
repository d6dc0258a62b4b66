"""What clients saw during faults, and whether it was allowed.

Values are unique per partition and sent once by the harness; only the client retries. An acknowledged value must be
at the offset it was acknowledged with, exactly once, whatever failed. A value without an answer may be there or not,
but at most once. Nothing that nobody sent may be there, and a producer's values keep their order.
"""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class History:
    """Sends and reads by partition."""

    sent: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    acked: dict[int, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    failed: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    read: dict[int, list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))

    def on_sent(self, partition: int, value: bytes) -> None:
        self.sent[partition].append(value)

    def on_acked(self, partition: int, offset: int, value: bytes) -> None:
        self.acked[partition][offset] = value

    def on_read(self, partition: int, offset: int, value: bytes) -> None:
        self.read[partition].append((offset, value))

    def anomalies(self) -> list[str]:
        """Everything that was not allowed, in words."""
        found = []
        for partition in sorted({*self.sent, *self.read}):
            found += self._of(partition)
        return found

    def _of(self, partition: int) -> list[str]:
        reads = self.read[partition]
        at = dict(reads)
        where: dict[bytes, list[int]] = defaultdict(list)
        for offset, value in at.items():
            where[value].append(offset)
        order = {value: place for place, value in enumerate(self.sent[partition])}
        found = [
            f"p{partition}: offset {offset} was read with two values"
            for offset, value in reads
            if at[offset] != value
        ]
        found += [
            f"p{partition}: {value!r} acknowledged at {offset} is lost, there is {at.get(offset)!r}"
            for offset, value in self.acked[partition].items()
            if at.get(offset) != value
        ]
        found += [
            f"p{partition}: {value!r} is stored at {offsets}"
            for value, offsets in where.items()
            if len(offsets) > 1
        ]
        found += [f"p{partition}: {value!r} was never sent" for value in where if value not in order]
        places = [order[value] for _, value in sorted(at.items()) if value in order]
        if places != sorted(places):
            found.append(f"p{partition}: values are not in the order they were sent")
        offsets = [offset for offset, _ in reads]
        if offsets != sorted(offsets):
            found.append(f"p{partition}: the consumer went back")
        return found
