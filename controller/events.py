"""Log events of committed changes: one structured event for each."""

from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import BrokerRegistration, Changes, LeaderRecoveryState, PartitionChange

_log = get_logger("controller")

EACH_MAX = 100
"""Partitions logged one by one; of a bigger change, such as a broker's death, the count is logged as well."""


def log_changes(changes: Changes) -> None:
    """Log `changes` as events. Called by the active controller, so that each is logged once."""
    for broker_id in changes.brokers:
        _broker(changes.before.brokers.get(broker_id), changes.after.brokers.get(broker_id))
    for topic in changes.topics_created:
        _log.info("topic.created", topic=topic.name, id=str(topic.id), partitions=len(topic.partitions))
    for topic in changes.topics_removed:
        _log.info("topic.deleted", topic=topic.name, id=str(topic.id))
    for resource in changes.configs:
        overrides = dict(changes.after.config(*resource))
        _log.info("config.changed", type=resource.type, name=resource.name, keys=sorted(overrides))
    moved = [change for change in changes.partitions if change.before is not None and change.after is not None]
    for change in moved[:EACH_MAX]:
        _partition(change)
    if len(moved) > EACH_MAX:
        _log.info("partitions.changed", partitions=len(moved), leaders=sum(change.leader_changed for change in moved))


def _broker(before: BrokerRegistration | None, after: BrokerRegistration | None) -> None:
    if after is None:
        _log.info("broker.unregistered", broker=before.id if before else -1)
        return
    if before is None or before.epoch != after.epoch:
        endpoints = [f"{endpoint.name}://{endpoint.host}:{endpoint.port}" for endpoint in after.endpoints]
        _log.info("broker.registered", broker=after.id, epoch=after.epoch, endpoints=endpoints, rack=after.rack)
        return
    if before.fenced != after.fenced:
        _log.info("broker.fenced" if after.fenced else "broker.unfenced", broker=after.id, epoch=after.epoch)
    if after.in_controlled_shutdown and not before.in_controlled_shutdown:
        _log.info("broker.stopping", broker=after.id, epoch=after.epoch)
    failed = set(before.directories) - set(after.directories)
    if failed:
        _log.warning("broker.directory.failed", broker=after.id, directories=sorted(map(str, failed)))


def _partition(change: PartitionChange) -> None:
    before, after = change.before, change.after
    if before is None or after is None:
        return
    where = {"topic": change.topic, "partition": change.partition}
    if before.leader != after.leader:
        event = "leader.elected" if after.has_leader else "leader.lost"
        clean = not unclean(change)
        log = _log.info if clean and after.has_leader else _log.warning
        log(event, **where, leader=after.leader, before=before.leader, epoch=after.leader_epoch, clean=clean)
    if before.isr != after.isr:
        _log.info("isr.changed", **where, isr=list(after.isr), before=list(before.isr), elr=list(after.elr))
    if after.reassigning and not before.reassigning:
        _log.info(
            "reassignment.begun",
            **where,
            adding=list(after.adding_replicas),
            removing=list(after.removing_replicas),
        )
    if before.reassigning and not after.reassigning:
        _log.info("reassignment.ended", **where, replicas=list(after.replicas))


def unclean(change: PartitionChange) -> bool:
    """The new leader may lack committed records: it was neither in sync nor eligible."""
    before, after = change.before, change.after
    if before is None or after is None or not after.has_leader or not change.leader_changed:
        return False
    recovering = after.leader_recovery_state is LeaderRecoveryState.RECOVERING
    return recovering and after.leader not in before.isr and after.leader not in before.elr
