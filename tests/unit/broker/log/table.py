"""What a consumer with read_committed makes of a partition: used to compare a log before and after."""

from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.core.wire.records import Record, batches, read_records


def visible(log: PartitionLog) -> list[Record]:
    """All committed records from the log start on, aborted ones filtered as a consumer does."""
    found: list[Record] = []
    offset = log.start_offset
    while True:
        read = log.read(offset, 1 << 20, Isolation.LAST_STABLE)
        if not read.data:
            return found
        coming = sorted(read.aborted or [], key=lambda entry: entry.first_offset)
        aborting: set[int] = set()
        for pos, header in batches(read.data):
            while coming and coming[0].first_offset <= header.last_offset:
                aborting.add(coming.pop(0).producer_id)
            if header.control:
                aborting.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in aborting):
                found += [r for r in read_records(read.data, pos) if r.offset >= log.start_offset]
        offset = read.next_offset


def table(log: PartitionLog) -> dict[bytes, bytes]:
    """The last value of each key; a tombstone removes it."""
    values: dict[bytes, bytes] = {}
    for record in visible(log):
        if record.key is None:
            continue
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
    return values
