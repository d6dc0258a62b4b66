"""The assignor `range`: each topic is cut into consecutive ranges, one for each of its subscribers.

Members stand in the same order for every topic (static ones first, by instance id), so topics with equally many
partitions are cut alike and can be joined by key. What a member had before does not count.
"""

from rookery.broker.groups.assignors.spec import Assignment, GroupSpec, MemberSpec
from rookery.broker.groups.consumer.member import TopicIdPartition


def assign(spec: GroupSpec) -> Assignment:
    ordered = sorted(spec.members.items(), key=_rank)
    given: dict[str, list[TopicIdPartition]] = {id: [] for id, _ in ordered}
    for topic_id, count in spec.topics.items():
        subscribers = [id for id, member in ordered if spec.homogeneous or topic_id in member.topics]
        if not subscribers:
            continue
        share, extra = divmod(count, len(subscribers))
        first = 0
        for number, id in enumerate(subscribers):
            after = first + share + (number < extra)
            given[id].extend(TopicIdPartition(topic_id, index) for index in range(first, after))
            first = after
    return {id: frozenset(places) for id, places in given.items()}


def _rank(entry: tuple[str, MemberSpec]) -> tuple[bool, str]:
    id, member = entry
    return (member.instance_id is None, id if member.instance_id is None else member.instance_id)
