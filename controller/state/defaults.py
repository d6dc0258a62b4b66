"""The values used where neither a topic nor the cluster's dynamic configuration sets one, and what eligible leader
replicas (ELR) need of `min.insync.replicas`.

A leader commits what so many replicas have; the controller takes those that leave the ISR below that number for
holders of everything committed. A broker that counts with a value of its own would make that untrue. So while ELR is
on, the value for the whole cluster stands in the log, where it cannot be removed, and no broker has its own.
"""

from dataclasses import dataclass, field

from rookery.core.config.options import Settings
from rookery.core.config.topic import TABLE as TOPIC_OPTIONS
from rookery.core.errors import InvalidConfigError
from rookery.core.metadata.delta import either
from rookery.core.metadata.features import ELR_VERSION
from rookery.core.metadata.image import ConfigResource, Image, ResourceType
from rookery.core.metadata.records import ConfigRecord


@dataclass(frozen=True, slots=True)
class Defaults:
    """Static configuration of the controller, as far as its decisions need it."""

    partitions: int = 1
    replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    last_known_leader: bool = True
    delete_topics: bool = True
    records_per_request_max: int = 10_000
    topics: Settings = field(default_factory=lambda: Settings(TOPIC_OPTIONS))
    """A topic's options where nothing else is said."""


@dataclass(frozen=True, slots=True)
class TopicRules:
    """How the partitions of one topic keep their replicas in sync and choose their leaders."""

    min_insync_replicas: int
    unclean: bool
    elr: bool
    last_known_leader: bool


def rules_of(image: Image, topic: str, defaults: Defaults) -> TopicRules:
    """The topic's own values, else the cluster's dynamic ones, else the static ones."""
    own, cluster = image.topic_config(topic), image.config(ResourceType.BROKER, "")

    def text(key: str) -> str | None:
        return own.get(key, cluster.get(key))

    min_isr, unclean = text("min.insync.replicas"), text("unclean.leader.election.enable")
    return TopicRules(
        min_insync_replicas=int(either(min_isr, str(defaults.min_insync_replicas))),
        unclean=defaults.unclean_leader_election if unclean is None else unclean.strip().lower() == "true",
        elr=elr_enabled(image),
        last_known_leader=defaults.last_known_leader,
    )


MIN_ISR = "min.insync.replicas"
_CLUSTER = ConfigResource(ResourceType.BROKER, "")


def elr_enabled(image: Image) -> bool:
    return image.features.get(ELR_VERSION, 0) > 0


def settled_min_isr(image: Image, defaults: Defaults) -> list[ConfigRecord]:
    """What is missing for ELR to be on: the cluster's value, and the removal of those of single brokers."""
    if not elr_enabled(image):
        return []
    own = [
        ConfigRecord(*resource, MIN_ISR, None)
        for resource, values in image.configs.items()
        if resource.type == ResourceType.BROKER and resource.name and MIN_ISR in values
    ]
    if MIN_ISR in image.config(*_CLUSTER):
        return own
    return [ConfigRecord(*_CLUSTER, MIN_ISR, str(defaults.min_insync_replicas)), *own]


def check_min_isr(image: Image, record: ConfigRecord) -> None:
    """Raises INVALID_CONFIG for a change that ELR forbids."""
    if record.name != MIN_ISR or record.resource_type != ResourceType.BROKER or not elr_enabled(image):
        return
    if record.resource_name:
        raise InvalidConfigError(
            f"{MIN_ISR} cannot be set for one broker while {ELR_VERSION} is on: set it for a topic or for all brokers"
        )
    if record.value is None:
        raise InvalidConfigError(f"{MIN_ISR} cannot be removed for all brokers while {ELR_VERSION} is on: set a value")
