"""An image as records, and as one number.

The records come in a fixed order, so equal images give equal bytes: that makes the state hash, by which nodes
prove to each other that they hold the same state at the same offset.
"""

from collections.abc import Iterator
from hashlib import blake2b
from uuid import UUID

from rookery.core.metadata import records as r
from rookery.core.metadata.codec import encode
from rookery.core.metadata.features import RELEASE, Release
from rookery.core.metadata.image import BrokerRegistration, Image, Partition, QuotaEntity


def snapshot(image: Image) -> Iterator[r.Record]:
    """Records that give `image` when replayed onto nothing."""
    for name in sorted(image.features):
        yield r.FeatureLevelRecord(name, image.features[name])
    for broker_id in sorted(image.brokers):
        yield _broker(image.brokers[broker_id])
    for name in sorted(image.topic_ids):
        topic = image.topics[image.topic_ids[name]]
        yield r.TopicRecord(name, topic.id)
        for index, partition in topic.in_order():
            yield _partition(topic.id, index, partition)
    for resource in sorted(image.configs):
        for key, value in sorted(image.configs[resource].items()):
            yield r.ConfigRecord(resource.type, resource.name, key, value)
    if image.next_producer_id:
        yield r.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from _security(image)


def snapshot_values(image: Image, release: Release = RELEASE) -> Iterator[bytes]:
    """The image as the values of a snapshot, written as its own level demands. A pass over everything: iterate over
    big images in a thread, not on an event loop."""
    level = release.level(image)
    return (encode(record, level, release) for record in snapshot(image))


def state_hash(image: Image) -> str:
    """Equal for equal states, whatever way they were reached and by whichever release; costs a pass over all."""
    digest = blake2b(digest_size=16)
    for value in snapshot_values(image):
        digest.update(len(value).to_bytes(4, "big"))
        digest.update(value)
    return digest.hexdigest()


def _broker(broker: BrokerRegistration) -> r.RegisterBrokerRecord:
    return r.RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        endpoints=broker.endpoints,
        features=broker.features,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.directories,
        broker_epoch=broker.epoch,
    )


def _partition(topic_id: UUID, index: int, partition: Partition) -> r.PartitionRecord:
    return r.PartitionRecord(
        topic_id=topic_id,
        partition=index,
        replicas=partition.replicas,
        isr=partition.isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        leader_recovery_state=partition.leader_recovery_state,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        elr=partition.elr,
        last_known_elr=partition.last_known_elr,
    )


def _security(image: Image) -> Iterator[r.Record]:
    for acl_id in sorted(image.acls):
        acl = image.acls[acl_id]
        yield r.AccessControlEntryRecord(
            id=acl_id,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission_type,
        )
    for entity in sorted(image.quotas, key=_entity_order):
        for key, value in sorted(image.quotas[entity].items()):
            yield r.ClientQuotaRecord(entity, key, value)
    for name, mechanism in sorted(image.credentials):
        credential = image.credentials[name, mechanism]
        yield r.UserScramCredentialRecord(
            name=name,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )


def _entity_order(entity: tuple[QuotaEntity, ...]) -> list[tuple[str, bool, str]]:
    return [(part.type, part.name is not None, part.name or "") for part in entity]
