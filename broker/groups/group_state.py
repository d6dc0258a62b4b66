"""The states of groups, the transitions between those of a classic group, and the options of groups."""

from dataclasses import dataclass
from enum import Enum


class GroupState(Enum):
    """Spelled as DescribeGroups shows them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    ASSIGNING = "Assigning"
    """Of the consumer protocol: a new target is due."""
    RECONCILING = "Reconciling"
    """Of the consumer protocol: not all members have what is meant for them."""
    DEAD = "Dead"


REACHED_FROM = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: {GroupState.EMPTY},
}
"""The table at the head of `group`: from where each state may be reached."""


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The settings of groups of the consumer protocol. The first three can be set for each group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migrations: frozenset[str] = frozenset(("upgrade", "downgrade"))
    """What a group with members may do: change to the consumer protocol, and back to the classic one."""


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """The options of groups, by Kafka's names."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 10_080 * 60_000
    consumer: ConsumerOptions = ConsumerOptions()
