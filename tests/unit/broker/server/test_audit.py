"""The audit log: one line for each denial, bounded, without what a client could smuggle in."""

import logging

import pytest

from rookery.broker.server.access import TOPIC, Denial
from rookery.broker.server.audit import LINES_MAX, SHOWN_MAX, Audit
from rookery.core.metadata.acl_codes import AclOperation, AclPermission, PatternType
from rookery.core.metadata.image import AccessControlEntry
from rookery.core.security.authorizer import AclIndex, Authorizer

WRITE = AclOperation.WRITE


def denial(name: str = "orders", principal: str = "User:alice", *acls: AccessControlEntry) -> Denial:
    return Denial(principal, "10.0.0.1", WRITE, TOPIC, name, "Produce", Authorizer(AclIndex.of(acls)))


class Rig:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "rookery.authorizer")
        self._caplog = caplog
        self.now = 5.0
        self.audit = Audit(lambda: self.now)

    def lines(self) -> list[tuple[str, dict[str, object]]]:
        records = list(self._caplog.records)
        self._caplog.clear()
        lines = [(record.getMessage(), dict(record.fields)) for record in records]  # type: ignore[attr-defined]
        return lines


@pytest.fixture
def rig(caplog: pytest.LogCaptureFixture) -> Rig:
    return Rig(caplog)


def test_a_line_says_who_what_where_and_by_which_rule(rig: Rig) -> None:
    acl = AccessControlEntry(TOPIC, "ord", PatternType.PREFIXED, "User:alice", "*", WRITE, AclPermission.DENY)
    rig.audit.denied(denial("orders", "User:alice", acl))
    assert rig.lines() == [
        (
            "authorization.denied",
            {
                "principal": "User:alice",
                "host": "10.0.0.1",
                "operation": "WRITE",
                "resource": "TOPIC:LITERAL:orders",
                "request": "Produce",
                "rule": "DENY User:alice from * WRITE on TOPIC:PREFIXED:ord",
            },
        )
    ]
    rig.audit.denied(denial("other"))
    assert rig.lines()[0][1]["rule"] == "DefaultDeny"


def test_the_same_denial_has_one_line_a_second_and_a_sum(rig: Rig) -> None:
    for _ in range(1000):
        rig.audit.denied(denial())
    assert len(rig.lines()) == 1
    rig.now += 1
    rig.audit.denied(denial())
    again, line = rig.lines()
    assert again == ("authorization.denied.again", {"repeated": 999, "others": 0})
    assert line[0] == "authorization.denied"


def test_however_many_names_are_tried_the_lines_are_bounded(rig: Rig) -> None:
    for number in range(10_000):
        rig.audit.denied(denial(f"topic-{number}"))
    assert len(rig.lines()) == LINES_MAX
    rig.now += 1
    rig.audit.denied(denial())
    assert rig.lines()[0] == ("authorization.denied.again", {"repeated": 0, "others": 10_000 - LINES_MAX})


def test_names_are_cut_and_cannot_make_lines_of_their_own(rig: Rig) -> None:
    rig.audit.denied(denial("a\nauthorization.denied principal=User:x\x1b[2J", "User:\r" + "b" * 9000))
    [(_, fields)] = rig.lines()
    assert "\n" not in str(fields["resource"])
    assert "\x1b" not in str(fields["resource"])
    assert len(str(fields["principal"])) < SHOWN_MAX + 20
