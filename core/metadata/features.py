"""What a release of this software understands, and what it writes while the cluster stands at a feature level.

A node reads everything its release knows. What it writes follows `metadata.version` as the cluster has agreed on
it, so nodes of two releases run side by side: the newer write what the older can read, until all of them are new
and the level is raised.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rookery.core.errors import UnsupportedVersionError
from rookery.core.metadata.image import FeatureRange, Image
from rookery.core.metadata.records import Record

METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
"""At 1 groups of the consumer protocol are served."""
FIRST_LEVEL = 1


class UnsupportedLevelError(Exception):
    """The cluster has agreed on something that this release does not understand."""


@dataclass(frozen=True, slots=True)
class Release:
    """One release. A tuple of levels gives the history of versions: its n-th element is the `metadata.version` from
    which on the n-th version is written."""

    features: tuple[FeatureRange, ...]
    rpc: tuple[int, ...] = (FIRST_LEVEL,)
    """Of the protocol between nodes, whose versions count from 1."""
    requests: Mapping[type[object], int] = field(default_factory=dict)
    """The version of that protocol in which a request to the controller came; 1 for those not named."""
    records: Mapping[type[Record], tuple[int, ...]] = field(default_factory=dict)
    """Of a record of the metadata log, whose versions count from 0; the first level alone for those not named."""
    fields: Mapping[type[Record], Mapping[str, int]] = field(default_factory=dict)
    """The version of its record in which a field came; 0 for those not named."""

    @property
    def levels(self) -> FeatureRange:
        """The levels of `metadata.version` at which this release can take part."""
        return next(feature for feature in self.features if feature.name == METADATA_VERSION)

    def level(self, image: Image) -> int:
        """What the cluster has agreed on; the oldest possible where nothing is known yet, which all can read."""
        return image.features.get(METADATA_VERSION, self.levels.min_version)

    def rpc_version(self, level: int) -> int:
        """What a node speaks to others at `level`."""
        return bisect_right(self.rpc, level)

    @property
    def rpc_range(self) -> tuple[int, int]:
        """The first and the last version that is answered."""
        return self.rpc_version(self.levels.min_version), self.rpc_version(self.levels.max_version)

    def newest(self, kind: type[Record]) -> int:
        """The last version of a record that can be read; all before it can be, too, as they stay in the log."""
        return len(self._history(kind)) - 1

    def record_version(self, record: Record, level: int) -> int:
        """The version to write `record` in at `level`; UNSUPPORTED_VERSION where it says what others could not
        read."""
        kind = type(record)
        version = bisect_right(self._history(kind), level) - 1
        if version < 0:
            raise _too_early(kind.__name__, self._history(kind)[0], level)
        for name, since in self.fields.get(kind, {}).items():
            if since > version and getattr(record, name) != kind.__dataclass_fields__[name].default:
                raise _too_early(f"{kind.__name__} with {name}", self._history(kind)[since], level)
        return version

    def check_request(self, kind: type[object], level: int) -> None:
        """Raises UNSUPPORTED_VERSION for a request that the controller need not know at `level`."""
        since = self.requests.get(kind, 1)
        if since > self.rpc_version(level):
            raise _too_early(kind.__name__, self.rpc[since - 1], level)

    def check_understood(self, image: Image) -> None:
        """Raises UnsupportedLevelError where the cluster is at a level that this release does not have."""
        lacking = not_understood(image.features, self.features)
        if lacking:
            raise UnsupportedLevelError(
                f"the cluster's {lacking}: run a release on this node that understands it, like the others"
            )

    def _history(self, kind: type[Record]) -> tuple[int, ...]:
        return self.records.get(kind, (FIRST_LEVEL,))


def not_understood(levels: Mapping[str, int], features: Sequence[FeatureRange]) -> str:
    """The first of the levels that `features` do not hold, in words; empty if they hold all."""
    ranges = {feature.name: feature for feature in features}
    for name, level in sorted(levels.items()):
        known = ranges.get(name)
        if known is None:
            return f"{name} is at {level}, and this is not known here"
        if not known.min_version <= level <= known.max_version:
            return f"{name} is at {level}, and {known.min_version} to {known.max_version} are known here"
    return ""


def _too_early(what: str, since: int, level: int) -> UnsupportedVersionError:
    return UnsupportedVersionError(
        f"{what} needs {METADATA_VERSION} {since}, the cluster is at {level}: when all nodes are upgraded, raise it "
        f"with kafka-features upgrade --feature {METADATA_VERSION}={since}"
    )


RELEASE = Release(
    features=(
        FeatureRange(METADATA_VERSION, 1, 1),
        FeatureRange(ELR_VERSION, 0, 1),
        FeatureRange(GROUP_VERSION, 0, 1),
        FeatureRange(TRANSACTION_VERSION, 0, 2),
    ),
)
"""This release. The table of what each level brought:

| metadata.version | protocol between nodes | records |
|---|---|---|
| 1 | 1 | all in version 0 |
"""
SUPPORTED = RELEASE.features
