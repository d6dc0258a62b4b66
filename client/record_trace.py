"""The path of one record: appended, replicated, committed, read. Facts in, steps out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rookery.client.admin.types import RecordDescription
from rookery.client.types import TopicPartition
from rookery.core.flight_recorder import Event


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What the cluster says of a record and its partition."""

    place: TopicPartition
    offset: int
    log_start: int
    high_watermark: int
    stable: int
    """The last stable offset: readers of committed transactions see what is below."""
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    record: RecordDescription | None
    behind: Mapping[int, int] = field(default_factory=dict)
    """By replica that is not in sync: how many records it lacks; missing if it did not say."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """The committed offsets of groups."""
    events: Sequence[Event] = ()
    """What nodes recorded about the partition, oldest first."""


class Step(NamedTuple):
    step: str
    when: str
    who: str
    what: str

    def row(self) -> dict[str, Any]:
        return self._asdict()


COLUMNS = Step._fields


def moment(at_ms: int) -> str:
    if at_ms < 0:
        return "-"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def steps(facts: TraceFacts) -> list[Step]:
    """The record's way, in order; the last steps are what happened to its partition since."""
    if facts.offset < facts.log_start:
        what = f"gone: the log starts at {facts.log_start} now (retention, or deleted records)"
        return [Step("deleted", "-", _broker(facts.leader), what), *_read(facts), *_since(facts)]
    return [_appended(facts), *_replicated(facts), _committed(facts), *_visible(facts), *_read(facts), *_since(facts)]


def _broker(number: int) -> str:
    return f"broker {number}" if number >= 0 else "nobody"


def _appended(facts: TraceFacts) -> Step:
    record = facts.record
    if record is None:
        if facts.offset >= facts.high_watermark:
            what = f"nothing at {facts.offset} can be read yet: the high watermark is {facts.high_watermark}"
            return Step("appended", "-", _broker(facts.leader), what)
        return Step("appended", "-", _broker(facts.leader), "no record is here any more: the log was compacted")
    clock = "the leader's clock" if record.log_append_time else "the producer's clock"
    what = f"{clock}; in the batch {record.base_offset} to {record.last_offset}, leader epoch {record.leader_epoch}"
    if record.producer_id >= 0:
        what += f", producer id {record.producer_id}{', in a transaction' if record.transactional else ''}"
    if record.control:
        what += "; a marker that ends a transaction"
    return Step("appended", moment(record.timestamp), _leader_then(facts, record.leader_epoch), what)


def _leader_then(facts: TraceFacts, epoch: int) -> str:
    """The broker that led in an epoch: known for the epoch of now, and from events."""
    if epoch == facts.leader_epoch:
        return _broker(facts.leader)
    for event in facts.events:
        if event.fields.get("epoch") == epoch:
            if event.name == "leadership.begun":
                return _broker(event.node)
            if event.name == "leader.elected":
                return _broker(int(event.fields["leader"]))
    return f"the leader of epoch {epoch}"


def _replicated(facts: TraceFacts) -> list[Step]:
    found = []
    is_committed = facts.offset < facts.high_watermark
    for replica in facts.replicas:
        if replica == facts.leader:
            continue
        if replica in facts.isr and is_committed:
            what = "has it: in sync, and the record is below the high watermark"
        elif replica in facts.isr:
            what = "is in sync, but has not confirmed it"
        elif replica in facts.behind:
            end = facts.high_watermark - facts.behind[replica]
            state = "has it" if facts.offset < end else f"does not have it: it ends at {end}"
            what = f"{state}; it is out of sync"
        else:
            what = "is out of sync and did not say how far it is"
        found.append(Step("replicated", "-", _broker(replica), what))
    return found


def _committed(facts: TraceFacts) -> Step:
    state = "yes" if facts.offset < facts.high_watermark else "no"
    in_sync = ",".join(map(str, facts.isr)) or "none"
    return Step("committed", "-", f"in sync {in_sync}", f"{state}: the high watermark is {facts.high_watermark}")


def _visible(facts: TraceFacts) -> list[Step]:
    if facts.stable <= facts.offset < facts.high_watermark:
        what = f"hidden from read_committed: a transaction is open since {facts.stable}"
        return [Step("visible", "-", "readers", what)]
    return []


def _read(facts: TraceFacts) -> list[Step]:
    found = []
    for group, offset in sorted(facts.groups.items()):
        state = "committed past it" if offset > facts.offset else "not yet"
        found.append(Step("read", "-", f"group {group}", f"{state}: its offset is {offset}"))
    return found or [Step("read", "-", "no group", "no group has an offset of this partition")]


def _since(facts: TraceFacts) -> list[Step]:
    begin = facts.record.timestamp if facts.record is not None else 0
    return [
        Step(
            "event",
            moment(event.at_ms),
            f"node {event.node}",
            " ".join([event.name, *(f"{key}={value}" for key, value in event.fields.items() if key not in PLACE)]),
        )
        for event in facts.events
        if event.at_ms >= begin
    ]


PLACE = ("topic", "partition")
