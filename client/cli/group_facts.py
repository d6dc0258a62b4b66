"""What is known of a group: asked of the cluster for `rookery group` and the doctor."""

import time
from dataclasses import replace
from urllib.parse import quote

from rookery.client.admin import Admin
from rookery.client.admin.types import GroupDescription
from rookery.client.cli.events import places_of, recorded
from rookery.client.errors import CliError, NotFoundError
from rookery.client.group_report import NOT_THERE, REBALANCE, GroupFacts, PartitionFacts
from rookery.client.node_pages import Access
from rookery.client.types import TopicPartition
from rookery.core.errors import GroupIdNotFoundError, KafkaError
from rookery.core.flight_recorder import Event
from rookery.core.net.connection import ConnectionLostError

EVENTS_ASKED = 1000
RETENTION, POLICY = "retention.ms", "cleanup.policy"


async def described(admin: Admin, name: str) -> GroupDescription:
    try:
        return await admin.describe_group(name)
    except GroupIdNotFoundError:
        names = [each.group_id for each in await admin.list_groups()]
        near = f"; the nearest is {_nearest(name, names)!r}" if names else ""
        raise NotFoundError(f"there is no group {name!r}{near}. `rookery group list` shows what there is") from None


def _nearest(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    return (get_close_matches(name, names, 1, 0.0) or names)[0]


async def facts_of(admin: Admin, name: str, before: GroupFacts | None = None, sample_s: float = 0.0) -> GroupFacts:
    """The group and its partitions: those with offsets, and those that members have."""
    group = await described(admin, name)
    offsets = await admin.list_group_offsets(name)
    places = sorted({*offsets, *(place for member in group.members for place in member.assignment)})
    starts, ends, leaders = await log_of(admin, places)
    earlier = {each.place: each for each in before.partitions} if before is not None else {}
    partitions = []
    for place in places:
        committed = offsets[place].offset if place in offsets else -1
        old = earlier.get(place)
        partitions.append(
            PartitionFacts(
                place,
                committed,
                starts.get(place, 0),
                ends.get(place, max(committed, 0)),
                leaders.get(place, NOT_THERE),
                committed_before=old.committed if old is not None else -1,
                end_before=old.end if old is not None else -1,
            )
        )
    return GroupFacts(group, partitions, sample_s, now_ms=int(time.time() * 1000))


async def with_causes(admin: Admin, facts: GroupFacts, access: Access) -> GroupFacts:
    """What explanations need besides: how old the next records are, how long topics keep them, what transactions hold
    back, and what the coordinators recorded."""
    behind = [each.place for each in facts.partitions if each.lag and each.leader >= 0]
    stable = await admin.list_offsets(dict.fromkeys(behind, "latest"), read_committed=True)
    kept_s = {topic: await _retention_s(admin, topic) for topic in {place.topic for place in behind}}
    ages = await lag_seconds(admin, facts)
    partitions = [
        replace(
            each,
            stable=stable[each.place].offset,
            retention_s=kept_s[each.place.topic],
            lag_s=ages.get(each.place, -1.0),
        )
        if each.place in stable
        else each
        for each in facts.partitions
    ]
    events = await rebalances(admin, access, facts.group.group_id)
    return replace(facts, partitions=partitions, events=events)


async def rebalances(admin: Admin, access: Access, group: str = "") -> list[Event]:
    """What coordinators recorded of a group, or of all; nothing where nodes record nothing or cannot be asked."""
    words = {"limit": str(EVENTS_ASKED), "event": REBALANCE, "group": group}
    query = "&".join(f"{name}={quote(text)}" for name, text in words.items() if text)
    try:
        found, _ = await recorded(await places_of(admin, None), query, access)
    except (CliError, KafkaError, ConnectionLostError, OSError):
        return []
    return found


async def _retention_s(admin: Admin, topic: str) -> float:
    """For how long a topic keeps records; -1 for ever."""
    try:
        entries = await admin.describe_topic_config(topic, [RETENTION, POLICY])
    except KafkaError:
        return -1.0
    deletes = "delete" in (entries[POLICY].value or "")
    kept_ms = int(entries[RETENTION].value or -1)
    return kept_ms / 1000 if deletes and kept_ms > 0 else -1.0


async def log_of(
    admin: Admin, places: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, int]]:
    """First offset, end and leader of partitions that exist and have a leader."""
    known = set(await admin.list_topics(internal=True))
    described = await admin.describe_topics(sorted({place.topic for place in places} & known))
    leaders = {
        TopicPartition(topic.name, each.number): each.leader
        for topic in described.values()
        for each in topic.partitions
    }
    led = [place for place in places if leaders.get(place, NOT_THERE) >= 0]
    starts = await admin.list_offsets(dict.fromkeys(led, "earliest"))
    ends = await admin.list_offsets(dict.fromkeys(led, "latest"))
    return {p: o.offset for p, o in starts.items()}, {p: o.offset for p, o in ends.items()}, leaders


async def lag_seconds(admin: Admin, facts: GroupFacts) -> dict[TopicPartition, float]:
    """How old the first record is that was not read: -1 where nothing waits or it cannot be read."""
    now = time.time()
    found: dict[TopicPartition, float] = {}
    for each in facts.partitions:
        if each.lag and each.leader >= 0:
            timestamp = await admin.timestamp_at(each.place, max(each.committed, each.log_start))
            found[each.place] = round(max(0.0, now - timestamp / 1000), 1) if timestamp >= 0 else -1.0
    return found
