"""Options of groups of the consumer protocol: those of a node, and those of one group (`GROUP_TABLE`)."""

from collections.abc import Mapping
from typing import NamedTuple

from rookery.core.config.options import (
    INT_MAX,
    ConfigError,
    Option,
    Settings,
    String,
    WordList,
    int32,
    table_of,
)

ASSIGNOR_NAMES = ("uniform", "range")
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")

SESSION_TIMEOUT_MS = Option(
    "group.consumer.session.timeout.ms",
    int32(1),
    45_000,
    "A member of the consumer protocol without a heartbeat for this time is removed.",
)
MIN_SESSION_TIMEOUT_MS = Option(
    "group.consumer.min.session.timeout.ms", int32(1), 45_000, "Shortest session timeout that a group may set."
)
MAX_SESSION_TIMEOUT_MS = Option(
    "group.consumer.max.session.timeout.ms", int32(1), 60_000, "Longest session timeout that a group may set."
)
HEARTBEAT_INTERVAL_MS = Option(
    "group.consumer.heartbeat.interval.ms",
    int32(1),
    5_000,
    "Heartbeat interval given to members of the consumer protocol.",
)
MIN_HEARTBEAT_INTERVAL_MS = Option(
    "group.consumer.min.heartbeat.interval.ms", int32(1), 5_000, "Shortest heartbeat interval that a group may set."
)
MAX_HEARTBEAT_INTERVAL_MS = Option(
    "group.consumer.max.heartbeat.interval.ms", int32(1), 15_000, "Longest heartbeat interval that a group may set."
)
ASSIGNMENT_INTERVAL_MS = Option(
    "group.consumer.assignment.interval.ms",
    int32(0),
    1_000,
    "Shortest time between two target assignments of a group.",
)
MIN_ASSIGNMENT_INTERVAL_MS = Option(
    "group.consumer.min.assignment.interval.ms", int32(0), 0, "Shortest assignment interval that a group may set."
)
MAX_ASSIGNMENT_INTERVAL_MS = Option(
    "group.consumer.max.assignment.interval.ms",
    int32(0),
    15_000,
    "Longest assignment interval that a group may set.",
)
MAX_SIZE = Option(
    "group.consumer.max.size", int32(1), INT_MAX, "Members a group of the consumer protocol may have."
)
ASSIGNORS = Option(
    "group.consumer.assignors",
    WordList(ASSIGNOR_NAMES, at_least=1),
    ASSIGNOR_NAMES,
    "Assignors that members may ask for; the first is used where they ask for none.",
)
MIGRATION_POLICY = Option(
    "group.consumer.migration.policy",
    String(MIGRATION_POLICIES),
    "bidirectional",
    "Whether a group with members may change from the classic to the consumer protocol (upgrade) and back (downgrade).",
)

GROUP_SESSION_TIMEOUT_MS = Option(
    "consumer.session.timeout.ms",
    int32(1),
    45_000,
    "A member of this group without a heartbeat for this time is removed.",
    synonyms=(SESSION_TIMEOUT_MS.name,),
)
GROUP_HEARTBEAT_INTERVAL_MS = Option(
    "consumer.heartbeat.interval.ms",
    int32(1),
    5_000,
    "Heartbeat interval given to members of this group.",
    synonyms=(HEARTBEAT_INTERVAL_MS.name,),
)
GROUP_ASSIGNMENT_INTERVAL_MS = Option(
    "consumer.assignment.interval.ms",
    int32(0),
    1_000,
    "Shortest time between two target assignments of this group.",
    synonyms=(ASSIGNMENT_INTERVAL_MS.name,),
)
_OF_GROUPS = {
    GROUP_SESSION_TIMEOUT_MS.name: (
        GROUP_SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, MIN_SESSION_TIMEOUT_MS, MAX_SESSION_TIMEOUT_MS,
    ),
    GROUP_HEARTBEAT_INTERVAL_MS.name: (
        GROUP_HEARTBEAT_INTERVAL_MS, HEARTBEAT_INTERVAL_MS, MIN_HEARTBEAT_INTERVAL_MS, MAX_HEARTBEAT_INTERVAL_MS,
    ),
    GROUP_ASSIGNMENT_INTERVAL_MS.name: (
        GROUP_ASSIGNMENT_INTERVAL_MS, ASSIGNMENT_INTERVAL_MS, MIN_ASSIGNMENT_INTERVAL_MS, MAX_ASSIGNMENT_INTERVAL_MS,
    ),
}  # fmt: skip
"""By name: the option of a group, the node's value for groups without it, the least and the most it may be."""
NODE_OPTIONS = {name: value for name, value in vars().items() if isinstance(value, Option) and "GROUP_" not in name}
GROUP_TABLE = table_of({name: value for name, value in vars().items() if name.startswith("GROUP_")})


class GroupTimes(NamedTuple):
    """What can be set for one group (ms)."""

    session_timeout: int
    heartbeat_interval: int
    assignment_interval: int


def times_of(settings: Settings, given: Mapping[str, str]) -> GroupTimes:
    """The times of a group with these options of its own. Values that the node does not allow any more count as the
    nearest that it does."""
    return GroupTimes(*(_time(settings, given, name) for name in _OF_GROUPS))


def _time(settings: Settings, given: Mapping[str, str], name: str) -> int:
    option, default, least, most = _OF_GROUPS[name]
    if name not in given:
        return settings[default]
    return min(max(option.parse(given[name]), settings[least]), settings[most])


def check_group_option(settings: Settings, name: str, value: str) -> None:
    """Raises ConfigError for a value that this node does not allow a group."""
    if name in _OF_GROUPS:
        option, _, least, most = _OF_GROUPS[name]
        if not settings[least] <= option.parse(value) <= settings[most]:
            raise ConfigError(
                name, value, f"{least.name}={settings[least]} to {most.name}={settings[most]} is allowed here"
            )
