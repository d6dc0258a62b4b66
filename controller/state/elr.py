"""What eligible leader replicas (ELR) rest on: leaders and the controller count with the same `min.insync.replicas`.

A leader commits what so many replicas have; the controller takes those that leave the ISR below that number for
holders of everything committed. A broker that counts with a value of its own would make that untrue. So while ELR is
on, the value for the whole cluster stands in the log, where it cannot be removed, and no broker has its own.
"""

from rookery.controller.state.defaults import Defaults
from rookery.core.errors import InvalidConfigError
from rookery.core.metadata.features import ELR_VERSION
from rookery.core.metadata.image import ConfigResource, Image, ResourceType
from rookery.core.metadata.records import ConfigRecord

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
