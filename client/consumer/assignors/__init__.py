"""Assignors of the classic group protocol: the leader of a group decides who reads which partition.

Names, results and user data are those of Kafka's Java client, so that members of both can share a group.
"""

from rookery.client.consumer.assignors.cooperative import CooperativeSticky
from rookery.client.consumer.assignors.simple import Range, RoundRobin
from rookery.client.consumer.assignors.spec import Assignor, Member
from rookery.client.consumer.assignors.sticky import Sticky

ASSIGNORS: dict[str, type[Assignor]] = {
    each.name: each for each in (Range, RoundRobin, Sticky, CooperativeSticky)
}

__all__ = ["ASSIGNORS", "Assignor", "CooperativeSticky", "Member", "Range", "RoundRobin", "Sticky"]
