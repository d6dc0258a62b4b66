"""The authorizer with many ACLs: one answer without a cache (goal 10 µs), and one change (goal 50 ms); CPU time."""

import time
from collections.abc import Callable
from random import Random

from rookery.core.metadata.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from rookery.core.metadata.image import AccessControlEntry
from rookery.core.security.authorizer import EVERYBODY, AclIndex, Authorizer

ACLS = 100_000
ASKED = 20_000
PRINCIPALS = 2000
HOST = "10.0.0.7"
TOPIC = AclResourceType.TOPIC


def name(rng: Random) -> str:
    return f"{rng.choice(('orders', 'billing', 'search', 'audit'))}.team-{rng.randrange(500):03}.{rng.randrange(40):02}"


def mixed(rng: Random) -> list[AccessControlEntry]:
    """Many principals with a few topics each, most by name, some by prefixes of the usual parts."""
    acls = []
    for _ in range(ACLS):
        resource, prefixed = name(rng), rng.random() < 0.2
        acls.append(
            AccessControlEntry(
                TOPIC,
                resource[: rng.choice((7, 10, 14, 16))] if prefixed else resource,
                PatternType.PREFIXED if prefixed else PatternType.LITERAL,
                EVERYBODY if rng.random() < 0.01 else f"User:app-{rng.randrange(PRINCIPALS)}",
                HOST if rng.random() < 0.1 else "*",
                rng.choice((AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)),
                AclPermission.DENY if rng.random() < 0.05 else AclPermission.ALLOW,
            )
        )
    return acls


def one_principal() -> list[AccessControlEntry]:
    """The worst case: all ACLs belong to one principal, and prefixes of every length."""
    return [
        AccessControlEntry(
            TOPIC,
            f"{number:05}" + "x" * (number % 40),
            PatternType.PREFIXED if number % 2 else PatternType.LITERAL,
            "User:app-1",
            "*",
            AclOperation.READ,
            AclPermission.ALLOW,
        )
        for number in range(ACLS)
    ]


def microseconds(run: Callable[[int], object], times: int) -> float:
    begun = time.thread_time()
    for number in range(times):
        run(number)
    return (time.thread_time() - begun) / times * 1e6


class Row:
    """One set of ACLs and questions about it."""

    def __init__(self, label: str, acls: list[AccessControlEntry], users: list[str], resources: list[str]) -> None:
        self.label, self.acls, self.users, self.resources = label, acls, users, resources
        begun = time.thread_time()
        self.index = AclIndex.of(acls)
        self.built_s = time.thread_time() - begun
        self.strict, self.open = Authorizer(self.index), Authorizer(self.index, allow_everyone=True)

    def ask(self, number: int) -> None:
        self.strict.allows(self.users[number], HOST, AclOperation.WRITE, TOPIC, self.resources[number])

    def ask_open(self, number: int) -> None:
        self.open.allows(self.users[number], HOST, AclOperation.WRITE, TOPIC, self.resources[number])

    def ask_any(self, number: int) -> None:
        self.strict.allows_any(self.users[number], HOST, AclOperation.WRITE, TOPIC)

    def change(self, number: int) -> None:
        self.index.changed([self.acls[number]], [self.acls[number + 1]])

    def show(self) -> None:
        figures = [microseconds(self.ask, ASKED), microseconds(self.ask_open, ASKED)]
        figures += [microseconds(self.ask_any, 1000), microseconds(self.change, 100)]
        print(f"{self.label:20}{self.built_s:10.2f} s" + "".join(f"{figure:12.1f} µs" for figure in figures))


def main() -> None:
    rng = Random(1)
    print(f"{f'{ACLS} ACLs':20}{'build':>12}{'one answer':>15}{'open default':>15}{'any topic':>15}{'one change':>15}")
    users = [f"User:app-{rng.randrange(PRINCIPALS)}" for _ in range(ASKED)]
    Row(f"{PRINCIPALS} principals", mixed(rng), users, [name(rng) for _ in range(ASKED)]).show()
    acls = one_principal()
    resources = [f"{rng.choice(acls).resource_name}-more" for _ in range(ASKED)]
    Row("1 principal", acls, ["User:app-1"] * ASKED, resources).show()
