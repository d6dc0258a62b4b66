"""Groups of the consumer protocol: what heartbeats cost, and how long partitions have no reader while a member joins.

10,000 members in 100 groups send one heartbeat each through request and response bytes and the group: CPU as a share of
one core within the heartbeat interval. Sockets and the log are not part of it.

Then a group of 20 on 100 partitions is joined by its twentieth member, with heartbeats at the clients' default
intervals, spread evenly. The consumer protocol runs on the group itself, in virtual time, with clients that let go at
once. The row of the classic protocol is arithmetic, not a run: what its rules say when clients lose no time.
"""

import statistics
import time
from collections.abc import Iterator

from rookery.broker.groups.consumer.group import Client, ConsumerGroup
from rookery.broker.groups.consumer.member import Member, Place
from rookery.broker.groups.group_state import ConsumerOptions, GroupOptions
from rookery.core.wire.apis.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
)
from tests.unit.broker.groups.consumer.driver import Consumer, ConsumerDriver
from tests.unit.broker.groups.driver import Caller

GROUPS, MEMBERS = 100, 100
INTERVAL_MS = 5_000
CLASSIC_INTERVAL_MS = 3_000
SIZE, PARTITIONS = 20, 100
STEP_MS = 50


def heartbeats() -> None:
    options = GroupOptions(consumer=ConsumerOptions(assignment_interval_ms=0))
    driver = Quiet(options=options)
    driver.cluster.make("t", MEMBERS)
    begun = time.thread_time()
    for group in range(GROUPS):
        for member in range(MEMBERS):
            driver.join_new(f"{group}-{member}", "t", group=f"g{group}")
    for _ in range(3):
        for group in range(GROUPS):
            stable(driver, f"g{group}")
    joined = time.thread_time() - begun
    written = len(driver.log)
    requests = []
    for group in range(GROUPS):
        for each in members_of(driver, f"g{group}"):
            request = ConsumerGroupHeartbeatRequest(
                group_id=f"g{group}", member_id=each.id, member_epoch=each.current.epoch
            )
            requests.append(b"".join(CONSUMER_GROUP_HEARTBEAT.encode_request(1, request)))
    client = Client("client", "/127.0.0.1")
    begun = time.thread_time()
    for raw in requests:
        request = CONSUMER_GROUP_HEARTBEAT.decode_request(1, raw)
        caller = Caller()
        step = driver.state.consumer_heartbeat(request, 1, client, caller, driver.now)
        for to, response in step.answers:
            to.complete(response)
        b"".join(CONSUMER_GROUP_HEARTBEAT.encode_response(1, caller.response))
    spent = time.thread_time() - begun
    count = len(requests)
    print(f"{count} members in {GROUPS} groups, joined and stable after {joined:.1f} s of CPU")
    added = len(driver.log) - written
    print(f"  a heartbeat that changes nothing: {spent / count * 1e6:.0f} us, {added} records written")
    print(f"  all of them: {spent / (INTERVAL_MS / 1000):.1%} of one core within {INTERVAL_MS} ms (without sockets)")


class Quiet(ConsumerDriver):
    """Does not fold the log again after each batch."""

    def check_fold(self) -> None:
        return

    def _settle(self) -> None:
        return


def stable(driver: ConsumerDriver, group: str) -> None:
    """One heartbeat of each member, which says to have what it was given."""
    for member in members_of(driver, group):
        driver.beat(member.id, member.current.epoch, owned=list(member.current.assigned), group=group)


def members_of(driver: ConsumerDriver, group_id: str) -> list[Member]:
    group = driver.state.groups[group_id]
    if not isinstance(group, ConsumerGroup):
        raise RuntimeError(f"group {group_id!r} is not of the consumer protocol")
    return list(group.members.values())


def consumer_protocol() -> list[int]:
    """Milliseconds without a reader, of each partition."""
    driver = ConsumerDriver(options=GroupOptions(consumer=ConsumerOptions()))
    driver.cluster.make("t", PARTITIONS)
    consumers = [Consumer(driver, f"m{number:02}") for number in range(SIZE)]
    for _ in range(8):
        for consumer in consumers[:-1]:
            consumer.beat()
        driver.pass_ms(1_000)
    due = {consumer.id: number * INTERVAL_MS // SIZE for number, consumer in enumerate(consumers)}
    idle: dict[Place, int] = {place: 0 for consumer in consumers for place in consumer.owned}
    for now in range(0, 6 * INTERVAL_MS, STEP_MS):
        for consumer in consumers:
            if due[consumer.id] <= now:
                before = consumer.owned
                answer = consumer.beat()
                # A client that gave up partitions, or waits for some, says so at once.
                again = consumer.owned != before
                due[consumer.id] = now + (STEP_MS if again else answer.heartbeat_interval_ms)
        driver.pass_ms(STEP_MS)
        read = {place for consumer in consumers for place in consumer.owned}
        for place in idle.keys() - read:
            idle[place] += STEP_MS
    return sorted(idle.values())


def classic_protocol() -> Iterator[int]:
    """Each member stops with the heartbeat that tells it to join, and goes on when the last has joined: at most one
    interval later. A partition stands still from its own member's heartbeat until then."""
    heard = [number * CLASSIC_INTERVAL_MS // (SIZE - 1) for number in range(SIZE - 1)]
    for partition in range(PARTITIONS):
        yield max(heard) - heard[partition % (SIZE - 1)]


def main() -> None:
    heartbeats()
    print(f"\na {SIZE}th member joins a group on {PARTITIONS} partitions: ms without a reader, of each partition")
    print(f"{'':24}{'stand still':>12}{'mean':>8}{'longest':>9}")
    for name, idle in (("consumer", consumer_protocol()), ("classic, by its rules", list(classic_protocol()))):
        still = sum(each > 0 for each in idle)
        print(f"{name:24}{still:12}{statistics.mean(idle):8.0f}{max(idle):9}")


if __name__ == "__main__":
    main()
