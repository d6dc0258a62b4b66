"""ListOffsets (2): the offset for a timestamp, or for one of the special timestamps."""

from collections import Counter
from typing import Any

from rookery.broker.handlers.authorize import DESCRIBE, topic_denied
from rookery.broker.handlers.locate import Locator
from rookery.broker.handlers.record_work import RecordWorkInThreads, is_read_quickly
from rookery.broker.log.partition_log import Isolation
from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import StartTask
from rookery.broker.server.pending import Pending
from rookery.core.errors import (
    CorruptMessageError,
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    UnsupportedVersionError,
)
from rookery.core.log.timestamps import look_up
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from rookery.core.wire.batch import read_header
from rookery.core.wire.primitives import WireError
from rookery.core.wire.served import Served

SPECIAL_FROM = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""The version each special timestamp came with."""
OFFSET_NOT_AVAILABLE_FROM = 5
READ_COMMITTED = 1
LOOK_UPS_MAX = 100
"""Batches that one search may look into: one, unless headers lie."""


class Unread(Exception):
    """A batch has to be read that is too large to be read on the loop."""

    def __init__(self, batch: bytes, timestamp: int | None, start: int) -> None:
        super().__init__(f"{len(batch)} bytes")
        self.batch, self.timestamp, self.start = batch, timestamp, start


class LookUps:
    """What was found in the batches that one search has looked into. The search runs on the loop, where the log cannot
    change under it; each time it needs a batch that takes long to read it is broken off with `Unread`, and begins
    again when that was done elsewhere."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int | None, int], tuple[int, int] | WireError | None] = {}

    def __call__(self, batch: bytes, timestamp: int | None, start: int) -> tuple[int, int] | None:
        header = read_header(batch)
        if is_read_quickly(header):
            return look_up(batch, timestamp, start)
        key = header.base_offset, timestamp, start
        if key not in self._found:
            raise Unread(batch, timestamp, start)
        found = self._found[key]
        if isinstance(found, WireError):
            raise found
        return found

    async def read(self, unread: Unread, work: RecordWorkInThreads, client: str) -> None:
        key = read_header(unread.batch).base_offset, unread.timestamp, unread.start
        if len(self._found) >= LOOK_UPS_MAX:
            raise CorruptMessageError(
                f"{LOOK_UPS_MAX} batches up to offset {key[0]} do not have the timestamps that their headers promise"
            )
        try:
            self._found[key] = await work.look_up(unread.batch, unread.timestamp, unread.start, client)
        except WireError as error:
            self._found[key] = error


class ListOffsetsHandler:
    served = Served(LIST_OFFSETS, 1, 11)

    def __init__(self, locator: Locator, work: RecordWorkInThreads, start_task: StartTask) -> None:
        self._locator = locator
        self._work = work
        self._start_task = start_task

    def handle(self, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse | Pending[Any]:
        isolation = _isolation(request)
        seen = Counter(
            (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
        )
        twice = {key for key, count in seen.items() if count > 1}
        topics: list[ListOffsetsTopicResponse] = []
        unread: list[tuple[str, ListOffsetsPartition, ListOffsetsPartitionResponse]] = []
        access = call.access
        for topic in request.topics:
            answers = []
            denied = access.restricted and not access.topic(DESCRIBE, topic.name)
            for asked in topic.partitions:
                answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
                answers.append(answer)
                if denied:
                    _refuse(answer, topic_denied(DESCRIBE), call)
                    continue
                if (topic.name, asked.partition_index) in twice:
                    twice_asked = f"{topic.name}-{asked.partition_index} is asked for twice"
                    _refuse(answer, InvalidRequestError(twice_asked), call)
                    continue
                try:
                    self._answer(answer, topic.name, asked, isolation, call, LookUps())
                except Unread:
                    unread.append((topic.name, asked, answer))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        response = ListOffsetsResponse(topics=topics)
        if not unread:
            return response
        return self._start_task(self._read(response, unread, isolation, call), LIST_OFFSETS.name)

    async def _read(
        self,
        response: ListOffsetsResponse,
        unread: list[tuple[str, ListOffsetsPartition, ListOffsetsPartitionResponse]],
        isolation: Isolation,
        call: Call,
    ) -> ListOffsetsResponse:
        for topic, asked, answer in unread:
            look_ups, done = LookUps(), False
            while not done:
                try:
                    self._answer(answer, topic, asked, isolation, call, look_ups)
                    done = True
                except Unread as batch:
                    try:
                        await look_ups.read(batch, self._work, call.client.address)
                    except KafkaError as error:
                        _refuse(answer, error, call)
                        done = True
        return response

    def _answer(
        self,
        answer: ListOffsetsPartitionResponse,
        topic: str,
        asked: ListOffsetsPartition,
        isolation: Isolation,
        call: Call,
        look_ups: LookUps,
    ) -> None:
        try:
            if asked.timestamp < 0 and call.version < SPECIAL_FROM.get(asked.timestamp, 2**15):
                raise UnsupportedVersionError(f"timestamp {asked.timestamp} in version {call.version}")
            partition = self._locator.named(topic, asked.partition_index)
            partition.check_leader(asked.current_leader_epoch)
            found = partition.list_offset(asked.timestamp, isolation, look_ups)
        except KafkaError as error:
            _refuse(answer, error, call)
            return
        if found is not None:
            answer.timestamp, answer.offset, answer.leader_epoch = found.timestamp, found.offset, found.leader_epoch


def _refuse(answer: ListOffsetsPartitionResponse, error: KafkaError, call: Call) -> None:
    call.error(error.code)
    answer.error_code = _code(error, call.version)


def _isolation(request: ListOffsetsRequest) -> Isolation:
    if request.replica_id >= 0:
        return Isolation.LOG_END
    return Isolation.LAST_STABLE if request.isolation_level == READ_COMMITTED else Isolation.HIGH_WATERMARK


def _code(error: KafkaError, version: int) -> ErrorCode:
    if error.code == ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_FROM:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error.code
