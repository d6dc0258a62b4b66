"""What became of one record: appended, replicated, committed, read."""

from collections.abc import Mapping
from dataclasses import dataclass

from rookery.testing.embedded import EmbeddedNodes
from rookery.testing.questions import OFFSETS_TOPIC, Questions
from rookery.testing.separate import SeparateNodes
from rookery.testing.timeline import Entry, Timeline


@dataclass(frozen=True, slots=True)
class Trace:
    """Times are those of the timeline. Where they are not known (of nodes in processes of their own, or of what
    happened before the cluster was started) they are None, or missing."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """The record's own time; -1 where no record is stored at the offset, or it is not committed."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    committed: bool
    """Whether it is below the high watermark."""
    read_by: tuple[str, ...]
    """Groups that have committed past it."""
    appended_s: float | None
    """When the first of the replicas that hold it now wrote it."""
    replicated_s: Mapping[int, float]
    """Which nodes hold it, and since when: the one that appended it, too."""
    committed_s: float | None
    read_s: Mapping[str, float]
    """When each group of `read_by` first committed an offset past it."""

    def __str__(self) -> str:
        state = "committed" if self.committed else "not committed"
        lines = [
            f"{self.topic}-{self.partition} offset {self.offset}: {state}, replicas {list(self.replicas)}, "
            f"in sync {list(self.in_sync)}; {', '.join(self.read_by) or 'no group'} committed past it"
        ]
        return "\n".join([*lines, *map(str, sorted(self._entries(), key=lambda entry: entry.at_s))])

    def _entries(self) -> list[Entry]:
        found = [
            Entry(at_s, f"node-{node_id}", "appended" if at_s == self.appended_s else "replicated")
            for node_id, at_s in self.replicated_s.items()
        ]
        if self.committed_s is not None:
            found.append(Entry(self.committed_s, "leader", "committed"))
        return found + [Entry(at_s, group, "the group has read it") for group, at_s in self.read_s.items()]


async def trace(
    questions: Questions,
    nodes: EmbeddedNodes | SeparateNodes,
    timeline: Timeline,
    topic: str,
    partition: int,
    offset: int,
) -> Trace:
    """Runs on the nodes' loop."""
    view = await questions.partition(topic, partition)
    start, end = (await questions.ends(topic))[partition]
    if offset < start:
        raise LookupError(f"{topic}-{partition} starts at {start}: offset {offset} is deleted")
    stored = await questions.record(topic, partition, offset) if offset < end else None
    groups = await questions.committed()
    read_by = tuple(name for name, offsets in groups.items() if offsets.get((topic, partition), -1) > offset)
    read_s: dict[str, float] = {}
    for commit in await questions.commits(topic, partition) if read_by else []:
        if commit.group in read_by and commit.offset > offset and commit.group not in read_s:
            at_s = nodes.committed_since(OFFSETS_TOPIC, *commit.place)
            read_s[commit.group] = at_s if at_s is not None else timeline.at_wall(commit.timestamp_ms)
    held = nodes.held_since(topic, partition, offset)
    return Trace(
        topic,
        partition,
        offset,
        timestamp_ms=stored.timestamp if stored is not None else -1,
        replicas=tuple(view.replicas),
        in_sync=tuple(sorted(view.isr)),
        committed=offset < end,
        read_by=read_by,
        appended_s=min(held.values(), default=None),
        replicated_s=held,
        committed_s=nodes.committed_since(topic, partition, offset) if offset < end else None,
        read_s=read_s,
    )
