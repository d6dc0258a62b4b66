"""The features this version of the software understands; every node tells them when it registers."""

from rookery.core.metadata.image import FeatureRange

METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"

SUPPORTED = (
    FeatureRange(METADATA_VERSION, 1, 1),
    FeatureRange(ELR_VERSION, 0, 1),
)
