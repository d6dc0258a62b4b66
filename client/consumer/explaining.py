"""What a consumer is doing, for people: `Consumer.explain()`."""

from typing import Any

from rookery.client.consumer.engine import Engine
from rookery.client.consumer.fetches import Fetches
from rookery.client.consumer.partition import Partition
from rookery.client.consumer.reading import Reading
from rookery.client.consumer.stalls import doing
from rookery.client.session import Session


def explain(session: Session, engine: Engine | None, fetches: Fetches, reading: Reading) -> dict[str, Any]:
    found = session.explain()
    found["options"] = dict(session.options())
    found["records_handed_out"] = reading.handed_out
    found["buffered_bytes"] = fetches.buffered
    found["partitions"] = {str(tp): _partition(each, engine) for tp, each in fetches.partitions.items()}
    if engine is None:
        return found
    found["fetch_requests"] = engine.fetcher.requests
    if engine.metadata.failure is not None:
        found["metadata_failure"] = str(engine.metadata.failure)
    if engine.group is not None:
        found["group"] = _group(engine)
    return found


def problems(engine: Engine, fetches: Fetches) -> list[str]:
    """What is in the way of reading, the worst first."""
    group = engine.group
    found: list[object] = [engine.crash, None if group is None else group.failure]
    found += (partition.problem for partition in fetches.partitions.values())
    found.append(engine.metadata.failure)
    for tp, partition in fetches.partitions.items():
        if engine.metadata.leader(tp) is None:
            found.append(f"{tp} has no leader")
        elif partition.failures:
            found.append(f"{tp}: the last {partition.failures} fetches failed")
        elif tp in engine.fetcher.stalls.since:
            found.append(f"{tp} stands still: it {doing(partition, has_leader=True)}")
    return [str(each) for each in found if each is not None]


def metrics(engine: Engine | None, fetches: Fetches, reading: Reading, skipped: int) -> dict[str, float]:
    if engine is None:
        return {}
    lags = [lag for each in fetches.partitions.values() if (lag := _lag(each)) is not None]
    found: dict[str, float] = {
        "records-consumed-total": reading.handed_out,
        "records-skipped-total": skipped,
        "bytes-consumed-total": engine.fetcher.bytes,
        "fetch-total": engine.fetcher.requests,
        "records-lag-max": max(lags, default=0),
        "assigned-partitions": len(fetches.partitions),
        "stalled-partitions": len(engine.fetcher.stalls.since),
        "buffered-bytes": fetches.buffered,
        "metadata-refresh-total": engine.metadata.refreshes,
    }
    if engine.offsets is not None:
        found["commit-total"] = engine.offsets.commits
    if engine.group is not None and engine.group.membership is not None:
        found["rebalance-total"] = engine.group.membership.rebalances
    return found


def _lag(partition: Partition) -> int | None:
    position = partition.position
    if position is None or partition.high_watermark < 0:
        return None
    return max(0, partition.high_watermark - position)


def _group(engine: Engine) -> dict[str, Any]:
    group = engine.group
    assert group is not None
    found: dict[str, Any] = {"id": group.id, "protocol": group.protocol or "not chosen yet"}
    membership = group.membership
    if membership is not None:
        found |= {
            "state": membership.state,
            "member_id": membership.member_id,
            "generation": membership.generation,
            "owned": sorted(map(str, membership.owned)),
            "last_reason": membership.reason,
            "waits_for_poll": membership.pending is not None,
        }
    if group.failure is not None:
        found["failure"] = str(group.failure)
    return found


def _partition(partition: Partition, engine: Engine | None) -> dict[str, Any]:
    leader = None if engine is None else engine.metadata.leader(partition.place)
    return {
        "doing": doing(partition, has_leader=leader is not None),
        "position": partition.position,
        "lag": _lag(partition),
        "committed": partition.committed if partition.committed >= 0 else None,
        "leader": None if leader is None else leader.node,
        "reads_from": partition.preferred
        if partition.preferred is not None or leader is None
        else leader.node,
        "buffered_bytes": partition.buffered,
    }
