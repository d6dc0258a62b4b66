"""Small clusters as images, and what their brokers may ask."""

from collections.abc import Iterable
from uuid import UUID

from rookery.core.metadata import records as r
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.features import ELR_VERSION, SUPPORTED
from rookery.core.metadata.image import EMPTY, Endpoint, Image, Partition, ResourceType
from rookery.core.metadata.requests import RegisterBrokerRequest

CLUSTER = "test-cluster"
ENDPOINTS = (Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
TOPIC = UUID(int=1000)


def after(image: Image, records: Iterable[r.Record]) -> Image:
    delta = Delta(image)
    for offset, record in enumerate(records, image.offset + 1):
        delta.replay(record, offset)
    return delta.apply(epoch=1).after


def directory(broker: int) -> UUID:
    return UUID(int=100 + broker)


def registration(broker: int, *, fenced: bool = False, rack: str | None = None) -> r.RegisterBrokerRecord:
    return r.RegisterBrokerRecord(
        broker,
        UUID(int=broker),
        ENDPOINTS,
        SUPPORTED,
        rack=rack,
        fenced=fenced,
        log_dirs=(directory(broker),),
    )


def cluster(
    brokers: Iterable[int] = (1, 2, 3),
    *,
    fenced: Iterable[int] = (),
    stopping: Iterable[int] = (),
    elr: bool = True,
) -> Image:
    """Registered brokers and no topic."""
    out, stopping = set(fenced), set(stopping)
    on = [feature for feature in SUPPORTED if elr or feature.name != ELR_VERSION]
    image = after(EMPTY, [r.FeatureLevelRecord(feature.name, feature.max_version) for feature in on])
    image = after(image, [registration(broker, fenced=broker in out) for broker in brokers])
    return after(
        image,
        [
            r.BrokerRegistrationChangeRecord(broker, image.brokers[broker].epoch, in_controlled_shutdown=True)
            for broker in sorted(stopping)
        ],
    )


def with_partition(image: Image, partition: Partition, *, min_isr: int = 1, unclean: bool = False) -> Image:
    """`image` with the topic "t" of one partition."""
    config = [
        r.ConfigRecord(ResourceType.TOPIC, "t", "min.insync.replicas", str(min_isr)),
        r.ConfigRecord(ResourceType.TOPIC, "t", "unclean.leader.election.enable", str(unclean).lower()),
    ]
    record = r.PartitionRecord(
        TOPIC,
        0,
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.directories,
        partition.leader_recovery_state,
        partition.removing_replicas,
        partition.adding_replicas,
        partition.elr,
        partition.last_known_elr,
    )
    return after(image, [r.TopicRecord("t", TOPIC), *config, record])


def the_partition(image: Image) -> Partition:
    return image.topics[TOPIC].partitions[0]


def register_request(broker: int, incarnation: int, **fields: object) -> RegisterBrokerRequest:
    given: dict[str, object] = {
        "cluster_id": CLUSTER,
        "broker_id": broker,
        "incarnation_id": UUID(int=incarnation),
        "endpoints": ENDPOINTS,
        "features": SUPPORTED,
        "log_dirs": (directory(broker),),
        **fields,
    }
    return RegisterBrokerRequest(**given)  # type: ignore[arg-type]
