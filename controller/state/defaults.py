"""What holds where neither a topic nor the cluster's dynamic configuration says otherwise."""

from dataclasses import dataclass, field

from rookery.core.config.options import Settings
from rookery.core.config.topic import TABLE as TOPIC_OPTIONS
from rookery.core.metadata.delta import either
from rookery.core.metadata.features import ELR_VERSION
from rookery.core.metadata.image import Image, ResourceType


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
        elr=image.features.get(ELR_VERSION, 0) > 0,
        last_known_leader=defaults.last_known_leader,
    )
