"""Two releases: this one, and one that is yet to come, which brings something new of each kind."""

from rookery.core.metadata import records as r
from rookery.core.metadata import requests as q
from rookery.core.metadata.features import METADATA_VERSION, RELEASE, Release
from rookery.core.metadata.image import FeatureRange
from rookery.proto import metadata_pb2 as pb

OLD = RELEASE
LEVEL = OLD.levels.max_version
RAISED = LEVEL + 1
NEXT = Release(
    features=(FeatureRange(METADATA_VERSION, OLD.levels.min_version, RAISED), *OLD.features[1:]),
    rpc=(*OLD.rpc, RAISED),
    requests={q.AllocateProducerIdsRequest: len(OLD.rpc) + 1},
    records={
        r.TopicRecord: (1, RAISED),
        r.RegisterBrokerRecord: (1, RAISED),
        r.ProducerIdsRecord: (RAISED,),
    },
    fields={r.RegisterBrokerRecord: {"rack": 1}},
)
RAISE = q.UpdateFeaturesRequest((q.FeatureUpdate(METADATA_VERSION, RAISED),))


def stored_version(value: bytes) -> int:
    """The version that a record carries in the log."""
    return pb.MetadataRecord.FromString(value).version
