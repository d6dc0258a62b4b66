"""Steps of groups: their records are those of `__consumer_offsets`."""

from rookery.broker.coordination import step
from rookery.broker.groups.records import GroupsRecord

Step = step.Step[GroupsRecord]
Instant = step.Instant
Receiver = step.Receiver
