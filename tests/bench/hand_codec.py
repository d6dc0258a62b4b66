"""Produce and Fetch requests decoded by hand, as one would write it with `struct`: the codec to compare with.

It checks what the compiled one checks, and fills the same classes (`fill=True`) or bare tuples.
"""

from struct import Struct as Layout
from typing import Any

from rookery.core.wire.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from rookery.core.wire.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from rookery.core.wire.primitives import NO_UUID, WireError, skip_tags

_FETCH_HEAD = Layout(">iiiibii")
_FETCH_PARTITION = Layout(">iiqiqi")
_PRODUCE_HEAD = Layout(">hi")
_INT = Layout(">i")


def _uvarint(buf: Any, pos: int) -> tuple[int, int]:
    value = buf[pos]
    pos += 1
    if value < 0x80:
        return value, pos
    value &= 0x7F
    shift = 7
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > 28:
            raise WireError("varint too long")


def _string(buf: Any, pos: int, end: int) -> tuple[str | None, int]:
    size, pos = _uvarint(buf, pos)
    if size == 0:
        return None, pos
    stop = pos + size - 1
    if stop > end:
        raise WireError("string past the end")
    return str(buf[pos:stop], "utf-8"), stop


def _count(buf: Any, pos: int, end: int) -> tuple[int, int]:
    count, pos = _uvarint(buf, pos)
    if count - 1 > end - pos:
        raise WireError("array past the end")
    return count - 1, pos


def _no_tags(buf: Any, pos: int) -> int:
    count = buf[pos]
    return skip_tags(buf, pos + 1, count) if count else pos + 1


def produce_v9(buf: Any, fill: bool) -> Any:
    """A Produce request, version 9 to 12."""
    view = memoryview(buf)
    end = len(view)
    transactional, pos = _string(view, 0, end)
    acks, timeout = _PRODUCE_HEAD.unpack_from(view, pos)
    count, pos = _count(view, pos + 6, end)
    topics: list[Any] = []
    for _ in range(count):
        name, pos = _string(view, pos, end)
        if name is None:
            raise WireError("null topic")
        partition_count, pos = _count(view, pos, end)
        partitions: list[Any] = []
        for _ in range(partition_count):
            (index,) = _INT.unpack_from(view, pos)
            size, pos = _uvarint(view, pos + 4)
            stop = pos + size - 1
            if stop > end:
                raise WireError("records past the end")
            records = view[pos:stop] if size else None
            pos = _no_tags(view, stop)
            if fill:
                partitions.append(PartitionProduceData(index=index, records=records))
            else:
                partitions.append((index, records))
        pos = _no_tags(view, pos)
        topics.append(TopicProduceData(name=name, partition_data=partitions) if fill else (name, partitions))
    _no_tags(view, pos)
    if fill:
        return ProduceRequest(
            transactional_id=transactional, acks=acks, timeout_ms=timeout, topic_data=topics
        )
    return transactional, acks, timeout, topics


def fetch_v12(buf: Any, fill: bool) -> Any:
    """A Fetch request, version 12, from a consumer."""
    end = len(buf)
    replica, wait, least, most, isolation, session, epoch = _FETCH_HEAD.unpack_from(buf)
    count, pos = _count(buf, 25, end)
    topics: list[Any] = []
    for _ in range(count):
        name, pos = _string(buf, pos, end)
        if name is None:
            raise WireError("null topic")
        partition_count, pos = _count(buf, pos, end)
        partitions: list[Any] = []
        for _ in range(partition_count):
            values = _FETCH_PARTITION.unpack_from(buf, pos)
            pos = _no_tags(buf, pos + 32)
            partitions.append(_partition(*values) if fill else values)
        pos = _no_tags(buf, pos)
        topics.append(FetchTopic(topic=name, partitions=partitions) if fill else (name, partitions))
    forgotten, pos = _count(buf, pos, end)
    if forgotten:
        raise WireError("this codec is for requests that forget nothing")
    rack, pos = _string(buf, pos, end)
    _no_tags(buf, pos)
    if fill:
        return FetchRequest(
            replica_id=replica, max_wait_ms=wait, min_bytes=least, max_bytes=most, isolation_level=isolation,
            session_id=session, session_epoch=epoch, topics=topics, rack_id=rack or "",
        )
    return replica, wait, least, most, isolation, session, epoch, topics, rack


def _partition(index: int, epoch: int, offset: int, fetched: int, start: int, most: int) -> FetchPartition:
    made = object.__new__(FetchPartition)
    made.partition = index
    made.current_leader_epoch = epoch
    made.fetch_offset = offset
    made.last_fetched_epoch = fetched
    made.log_start_offset = start
    made.partition_max_bytes = most
    made.replica_directory_id = NO_UUID
    made.high_watermark = 2**63 - 1
    return made
