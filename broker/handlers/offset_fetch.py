"""OffsetFetch (9): how far groups have read. From v8 on several groups can be asked for at once."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rookery.broker.coordination.reply import Converted, Gather, Part, Reply
from rookery.broker.groups.committing import NO_OFFSET, fetch
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.records import GroupsRecord, OffsetRecord
from rookery.broker.groups.step import Receiver, Step
from rookery.broker.handlers.authorize import DESCRIBE, group_denied, split_topics
from rookery.broker.server.access import TOPIC, Access
from rookery.broker.server.client import Call
from rookery.core.clock import Timer
from rookery.core.errors import ErrorCode, KafkaError, NotCoordinatorError
from rookery.core.wire.apis.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from rookery.core.wire.served import Served

SEVERAL_GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
GROUP_ERROR_FROM = 2
_ASK_ELSEWHERE = {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.NOT_COORDINATOR,
}
"""Consumers take COORDINATOR_NOT_AVAILABLE for fatal here; this makes them look for the coordinator again."""

CONFIRMATION = OffsetRecord("", "", -1, None)
"""Removes an offset that there never was. A broker that has been cut off may not know that another coordinates the
group by now, and that this one has newer offsets. So stable offsets are given when a record written after the
request is committed: only the coordinator in charge can do that."""

CONFIRMED_WITHIN_S = 2.0
"""Shorter than the patience of clients: who gives up by itself does not look for another coordinator."""


class OffsetFetchHandler:
    served = Served(OFFSET_FETCH, 1, 10)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: OffsetFetchRequest, call: Call) -> Any:
        asked = request.groups if call.version >= SEVERAL_GROUPS_FROM else [_only_group(request)]
        if call.version >= TOPIC_IDS_FROM:
            for topic in (topic for group in asked for topic in group.topics or ()):
                topic.name = self._groups.topic_name_of(topic.topic_id)
        reply: Reply[OffsetFetchResponse] = Reply(call, lambda code: OffsetFetchResponse(error_code=code))

        def done(fetched: list[OffsetFetchResponseGroup]) -> None:
            if call.version >= SEVERAL_GROUPS_FROM:
                reply.complete(OffsetFetchResponse(groups=fetched))
            else:
                reply.complete(_flat(fetched[0], request, call.version))

        gather = Gather(len(asked), done)
        for index, group in enumerate(asked):
            part = Part(gather, index, call, _refusal(group), _ASK_ELSEWHERE)
            if not call.access.group(DESCRIBE, group.group_id):
                part.refuse(group_denied(DESCRIBE))
            elif call.client.access.restricted:
                self._fetch_allowed(group, part, request.require_stable, call)
            else:
                self._fetch(group, part, request.require_stable)
        return reply.outcome()

    def _fetch_allowed(self, group: OffsetFetchRequestGroup, part: Receiver, require_stable: bool, call: Call) -> None:
        """Of topics that the client may see. Of those that it names it learns that it may not; others are left out."""
        if group.topics is None:
            to: Receiver = Converted(part, lambda found: _seen(found, call.client.access))
        else:
            group.topics, denied = split_topics(call, DESCRIBE, group.topics)
            hidden = [_denied_topic(topic) for topic in denied]
            to = Converted(part, lambda found: _with_topics(found, [*found.topics, *hidden]))
        self._fetch(group, to, require_stable)

    def _fetch(self, group: OffsetFetchRequestGroup, to: Receiver, require_stable: bool) -> None:
        if not require_stable:
            self._run(group, to, [], require_stable)
            return
        confirmed = _Confirmed(to, partial(self._run, group, to, [], require_stable))
        self._run(group, confirmed, [CONFIRMATION], require_stable)
        if not confirmed.settled:
            confirmed.timer = self._groups.call_later(CONFIRMED_WITHIN_S, confirmed.give_up)

    def _run(
        self, group: OffsetFetchRequestGroup, to: Receiver, records: list[GroupsRecord], require_stable: bool
    ) -> None:
        topic_id_of = self._groups.topic_id_of

        def decide(state: Any, now: object) -> Step:
            step = Step(records)
            step.answer(to, fetch(state, group, topic_id_of, require_stable=require_stable))
            return step

        self._groups.run(group.group_id, to, decide)


class _Confirmed:
    """Waits for offsets that are confirmed by a write. While too few replicas are in sync for one, the offsets are
    given as they are, so that clients that only read can go on."""

    def __init__(self, to: Receiver, unconfirmed: Callable[[], None]) -> None:
        self._to = to
        self._unconfirmed = unconfirmed
        self.settled = False
        self.timer: Timer | None = None

    def complete(self, response: Any) -> None:
        if self._settle():
            self._to.complete(response)

    def refuse(self, error: KafkaError) -> None:
        if not self._settle():
            return
        if error.code is ErrorCode.NOT_ENOUGH_REPLICAS:
            self._unconfirmed()
        else:
            self._to.refuse(error)

    def give_up(self) -> None:
        self.refuse(NotCoordinatorError("this broker could not confirm in time that it still coordinates the group"))

    def _settle(self) -> bool:
        """Whether this is the first outcome."""
        if self.timer is not None:
            self.timer.cancel()
        first, self.settled = not self.settled, True
        return first


def _seen(found: OffsetFetchResponseGroup, access: Access) -> OffsetFetchResponseGroup:
    return _with_topics(found, [topic for topic in found.topics if access.shows(DESCRIBE, TOPIC, topic.name)])


def _with_topics(
    found: OffsetFetchResponseGroup, topics: list[OffsetFetchResponseTopics]
) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=found.group_id, topics=topics, error_code=found.error_code)


def _denied_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ],
    )


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _refusal(group: OffsetFetchRequestGroup) -> Any:
    return lambda code: OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=code)


def _flat(group: OffsetFetchResponseGroup, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """The answer as older versions have it; the oldest has no place for an error but each partition."""
    if group.error_code and version < GROUP_ERROR_FROM:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=index,
                            committed_offset=NO_OFFSET,
                            metadata="",
                            error_code=group.error_code,
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics or ()
            ]
        )
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
