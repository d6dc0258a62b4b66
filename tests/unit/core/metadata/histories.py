"""Random histories of metadata records, each of which fits the state before it; the same seed gives the same."""

from collections.abc import Callable
from random import Random
from uuid import UUID

from rookery.core.metadata import records as r
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.features import ELR_VERSION
from rookery.core.metadata.image import EMPTY, Endpoint, Image, QuotaEntity, ResourceType

BROKERS = (1, 2, 3, 4)
NAMES = ("a", "b", "c.d", "c-e")

Make = Callable[[Random, Image], r.Record | None]
"""A record that may follow the image, or None where there is none of this kind."""


def history(seed: int, size_max: int = 40) -> list[r.Record]:
    """Up to `size_max` records, starting from nothing."""
    rng = Random(seed)
    image = EMPTY
    made: list[r.Record] = []
    for offset in range(rng.randint(0, size_max)):
        record = _record(rng, image)
        delta = Delta(image)
        delta.replay(record, offset)
        image = delta.apply(epoch=1).after
        made.append(record)
    return made


def _record(rng: Random, image: Image) -> r.Record:
    record = None
    while record is None:
        record = rng.choices(_MAKERS, _WEIGHTS)[0](rng, image)
    return record


def _uuid(rng: Random) -> UUID:
    return UUID(int=rng.getrandbits(64) + 2)


def _replicas(rng: Random) -> tuple[int, ...]:
    return tuple(rng.sample(BROKERS, rng.randint(1, 3)))


def _maybe_replicas(rng: Random) -> tuple[int, ...] | None:
    return rng.choice((None, None, (), _replicas(rng)))


def _directories(rng: Random) -> tuple[UUID, ...]:
    return tuple(_uuid(rng) for _ in range(rng.randint(0, 2)))


def _register(rng: Random, image: Image) -> r.Record:
    return r.RegisterBrokerRecord(
        broker_id=rng.choice(BROKERS),
        incarnation_id=_uuid(rng),
        endpoints=tuple(Endpoint("P", "h", rng.randint(1, 9), "PLAINTEXT") for _ in range(rng.randint(0, 2))),
        rack=rng.choice((None, "", "r1")),
        fenced=rng.random() < 0.5,
        log_dirs=_directories(rng),
    )


def _change_broker(rng: Random, image: Image) -> r.Record | None:
    if not image.brokers:
        return None
    broker = image.brokers[rng.choice(sorted(image.brokers))]
    if rng.random() < 0.2:
        return r.UnregisterBrokerRecord(broker.id, broker.epoch)
    return r.BrokerRegistrationChangeRecord(
        broker.id,
        broker.epoch,
        fenced=rng.choice((None, False, True)),
        in_controlled_shutdown=rng.choice((None, False, True)),
        log_dirs=rng.choice((None, _directories(rng))),
    )


def _topic(rng: Random, image: Image) -> r.Record | None:
    free = [name for name in NAMES if name not in image.topic_ids]
    return r.TopicRecord(rng.choice(free), _uuid(rng)) if free else None


def _remove_topic(rng: Random, image: Image) -> r.Record | None:
    return r.RemoveTopicRecord(rng.choice(sorted(image.topics))) if image.topics else None


def _partition(rng: Random, image: Image) -> r.Record | None:
    if not image.topics:
        return None
    topic = image.topics[rng.choice(sorted(image.topics))]
    replicas = _replicas(rng)
    return r.PartitionRecord(topic.id, len(topic.partitions), replicas, replicas, leader=replicas[0])


def _change_partition(rng: Random, image: Image) -> r.Record | None:
    known = sorted((topic.id, index) for topic, index, _ in image.partitions())
    if not known:
        return None
    topic_id, index = rng.choice(known)
    return r.PartitionChangeRecord(
        topic_id,
        index,
        isr=_maybe_replicas(rng),
        leader=rng.choice((None, None, -1, *BROKERS)),
        replicas=rng.choice((None, _replicas(rng))),
        adding_replicas=_maybe_replicas(rng),
        removing_replicas=_maybe_replicas(rng),
        leader_recovery_state=rng.choice((None, 0, 1)),
        elr=_maybe_replicas(rng),
        last_known_elr=_maybe_replicas(rng),
    )


def _config(rng: Random, image: Image) -> r.Record:
    resources = [(ResourceType.BROKER, ""), (ResourceType.BROKER, "1")]
    resources += [(ResourceType.TOPIC, name) for name in sorted(image.topic_ids)]
    type_, name = rng.choice(resources)
    return r.ConfigRecord(int(type_), name, rng.choice(("x", "y", "z")), rng.choice((None, "", "1", "2")))


def _other(rng: Random, image: Image) -> r.Record:
    acl = UUID(int=rng.randint(1, 3))
    mechanism = rng.randint(1, 2)
    entity = (QuotaEntity("user", rng.choice((None, "", "u"))), QuotaEntity("client-id", "c"))
    return rng.choice(
        [
            r.NoOpRecord(),
            r.FeatureLevelRecord(ELR_VERSION, rng.randint(0, 1)),
            r.ProducerIdsRecord(1, 1, image.next_producer_id + rng.randint(0, 1000)),
            r.ClientQuotaRecord(entity[: rng.randint(1, 2)], "rate", rng.choice((None, 0.0, 1.5))),
            r.AccessControlEntryRecord(acl, 2, rng.choice(NAMES), 3, "User:u", "*", rng.randint(2, 12), 3),
            r.RemoveAccessControlEntryRecord(acl),
            r.UserScramCredentialRecord("u", mechanism, b"s", rng.randbytes(2), b"k", 4096),
            r.RemoveUserScramCredentialRecord("u", mechanism),
        ]
    )


_CHOICES: list[tuple[Make, int]] = [
    (_register, 2),
    (_change_broker, 2),
    (_topic, 2),
    (_remove_topic, 1),
    (_partition, 4),
    (_change_partition, 6),
    (_config, 2),
    (_other, 3),
]
_MAKERS = [make for make, _ in _CHOICES]
_WEIGHTS = [weight for _, weight in _CHOICES]
