"""Who may do what: each rule of Kafka's StandardAuthorizer, and all of them together against a scan of all ACLs."""

from collections.abc import Iterable
from dataclasses import astuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.core.metadata.acl_codes import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from rookery.core.metadata.acls import id_of
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.image import EMPTY, AccessControlEntry, Changes, Image
from rookery.core.metadata.records import AccessControlEntryRecord, Record, RemoveAccessControlEntryRecord
from rookery.core.metadata.snapshot import snapshot
from rookery.core.security.authorizer import (
    EVERYBODY,
    EVERYTHING,
    OPERATIONS_OF,
    AclIndex,
    Authorizer,
    host_of,
    super_users,
)

Op = AclOperation
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
ALICE, BOB = "User:alice", "User:bob"
HOST = "10.0.0.1"


def acl(
    permission: int = ALLOW,
    operation: int = Op.READ,
    name: str = "t",
    *,
    principal: str = ALICE,
    pattern: int = LITERAL,
    host: str = "*",
    type: int = TOPIC,
) -> AccessControlEntry:
    return AccessControlEntry(type, name, pattern, principal, host, operation, permission)


def by(*acls: AccessControlEntry, everyone: bool = False, supers: str = "") -> Authorizer:
    return Authorizer(AclIndex.of(acls), super_users(supers), everyone)


def may(
    authorizer: Authorizer, operation: int = Op.READ, name: str = "t", who: str = ALICE, host: str = HOST
) -> bool:
    allowed = authorizer.allows(who, host, operation, TOPIC, name)
    assert authorizer.explain(who, host, operation, TOPIC, name).allowed == allowed
    return allowed


# -- one rule after the other


def test_what_nothing_allows_is_denied() -> None:
    assert not may(by())
    assert not may(by(acl()), who=BOB)
    assert not may(by(acl()), Op.WRITE)
    assert not may(by(acl()), name="u")
    assert not may(by(acl(type=GROUP)))
    assert may(by(acl()))


@pytest.mark.attack(39)
def test_a_literal_name_is_the_whole_name_and_a_prefix_its_beginning() -> None:
    assert not may(by(acl(name="foo")), name="foobar")
    prefixed = by(acl(name="foo", pattern=PREFIXED))
    assert may(prefixed, name="foobar")
    assert may(prefixed, name="foo")
    assert not may(prefixed, name="fo")
    assert may(by(acl(name="*")), name="anything")
    star = by(acl(name="*", pattern=PREFIXED))
    assert not may(star, name="anything"), "a prefix * is no wildcard"
    assert may(star, name="*thing")


@pytest.mark.attack(38)
def test_deny_wins_whichever_is_more_exact() -> None:
    assert not may(by(acl(DENY, name="foo1"), acl(name="foo", pattern=PREFIXED)), name="foo1")
    assert not may(by(acl(name="foo1"), acl(DENY, name="foo", pattern=PREFIXED)), name="foo1")
    assert not may(by(acl(name="foo1"), acl(DENY, name="*")), name="foo1")
    assert not may(by(acl(), acl(DENY, principal=EVERYBODY)))
    assert not may(by(acl(), acl(DENY, host=HOST)))
    assert may(by(acl(), acl(DENY, host="10.0.0.2")))


@pytest.mark.parametrize("operation", [Op.READ, Op.WRITE, Op.DELETE, Op.ALTER])
def test_some_operations_imply_describe(operation: Op) -> None:
    assert may(by(acl(operation=operation)), Op.DESCRIBE)
    assert not may(by(acl(operation=operation)), Op.DESCRIBE_CONFIGS)
    both = by(acl(DENY, operation), acl(ALLOW, Op.DESCRIBE))
    assert may(both, Op.DESCRIBE), "to deny an operation denies nothing else"


@pytest.mark.parametrize(
    "operation", [Op.CREATE, Op.CLUSTER_ACTION, Op.IDEMPOTENT_WRITE, Op.DESCRIBE_CONFIGS]
)
def test_others_do_not(operation: Op) -> None:
    assert not may(by(acl(operation=operation)), Op.DESCRIBE)


def test_alter_configs_implies_describe_configs() -> None:
    assert may(by(acl(operation=Op.ALTER_CONFIGS)), Op.DESCRIBE_CONFIGS)
    assert not may(by(acl(operation=Op.ALTER_CONFIGS)), Op.DESCRIBE)
    assert not may(by(acl(operation=Op.DESCRIBE_CONFIGS)), Op.ALTER_CONFIGS)


def test_all_means_every_operation_for_both_permissions() -> None:
    for operation in sorted(set(Op) - {Op.UNKNOWN, Op.ANY}):
        assert may(by(acl(operation=Op.ALL)), operation)
        assert not may(by(acl(operation=operation), acl(DENY, Op.ALL)), operation)


def test_the_wildcard_principal_is_everybody_of_every_type() -> None:
    everybody = by(acl(principal=EVERYBODY))
    assert may(everybody, who=BOB)
    assert may(everybody, who="Robot:r2")
    assert not may(by(acl(principal="user:alice")), who=ALICE), "types are compared as they are written"


@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1", "0:0:0:0:0:ffff:a00:1", "::ffff:a00:1"])
@pytest.mark.parametrize("written", ["10.0.0.1", "::ffff:10.0.0.1"])
@pytest.mark.attack(40)
def test_an_address_is_the_same_however_it_is_written(address: str, written: str) -> None:
    assert not may(by(acl(), acl(DENY, host=written)), host=address)
    assert may(by(acl(host=written)), host=address)


def test_forms_of_ipv6() -> None:
    assert may(by(acl(host="0:0:0:0:0:0:0:1")), host="::1")
    assert may(by(acl(host="2001:DB8::1")), host="2001:db8:0:0:0:0:0:1")
    assert not may(by(acl(), acl(DENY, host="fe80::1")), host="fe80::1%eth0")
    assert host_of("db.example") == "db.example"
    assert host_of("010.0.0.1") == "010.0.0.1", "no address, so it is nobody's"


def test_super_users_may_do_everything() -> None:
    authorizer = by(acl(DENY, Op.ALL, principal=EVERYBODY), supers=" User:root; User:CN=a,O=b ;;")
    assert may(authorizer, who="User:root")
    assert may(authorizer, who="User:CN=a,O=b")
    assert not may(authorizer, who="User:roo")
    assert authorizer.granted("User:root", HOST, TOPIC, "t") == EVERYTHING
    assert authorizer.explain("User:root", HOST, Op.READ, TOPIC, "t").rule == "SuperUser"


@pytest.mark.parametrize("text", ["root", "User:", ":root", "User:a;b"])
def test_a_super_user_without_type_or_name_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"super.users.*like User:admin"):
        super_users(text)


def test_everyone_is_allowed_only_where_no_acl_applies_to_the_resource() -> None:
    authorizer = by(acl(), acl(name="foo", pattern=PREFIXED), everyone=True)
    assert may(authorizer, name="other", who=BOB)
    assert not may(authorizer, name="t", who=BOB), "one ACL for Alice shuts Bob out"
    assert not may(authorizer, name="foobar", who=BOB)
    assert not may(authorizer, Op.WRITE, "t")
    assert not may(by(acl(name="*"), everyone=True), name="other", who=BOB)
    assert not may(by(), name="other")


def test_bits_of_all_operations_at_once() -> None:
    authorizer = by(acl(operation=Op.ALL), acl(DENY, Op.DELETE), acl(operation=Op.READ, type=GROUP, name="g"))
    topic = authorizer.granted(ALICE, HOST, TOPIC, "t") & OPERATIONS_OF[TOPIC]
    assert topic == OPERATIONS_OF[TOPIC] & ~(1 << Op.DELETE)
    group = authorizer.granted(ALICE, HOST, GROUP, "g") & OPERATIONS_OF[GROUP]
    assert group == 1 << Op.READ | 1 << Op.DESCRIBE
    assert authorizer.granted(BOB, HOST, AclResourceType.CLUSTER, CLUSTER_NAME) == 0


def test_an_answer_names_its_reason() -> None:
    authorizer = by(acl(name="foo", pattern=PREFIXED), acl(DENY, Op.WRITE, "foobar", host=HOST))

    def why(operation: int, name: str) -> str:
        return authorizer.explain(ALICE, HOST, operation, TOPIC, name).rule

    assert why(Op.DESCRIBE, "foobar") == "ALLOW User:alice from * READ on TOPIC:PREFIXED:foo"
    assert why(Op.WRITE, "foobar") == "DENY User:alice from 10.0.0.1 WRITE on TOPIC:LITERAL:foobar"
    assert why(Op.WRITE, "other") == "DefaultDeny"
    assert by(everyone=True).explain(ALICE, HOST, Op.WRITE, TOPIC, "other").rule == "DefaultAllow"


# -- any resource of a type


def any_topic(*acls: AccessControlEntry, everyone: bool = False, supers: str = "") -> bool:
    return by(*acls, everyone=everyone, supers=supers).allows_any(ALICE, HOST, Op.WRITE, TOPIC)


def test_write_on_some_topic_is_enough() -> None:
    assert not any_topic()
    assert any_topic(acl(operation=Op.WRITE))
    assert any_topic(acl(operation=Op.ALL, name="a", pattern=PREFIXED))
    assert not any_topic(acl(operation=Op.WRITE, principal=BOB))
    assert not any_topic(acl(operation=Op.WRITE, host="10.9.9.9"))
    assert not any_topic(acl(operation=Op.WRITE, type=GROUP))
    assert any_topic(everyone=True)
    assert any_topic(acl(name="other"), everyone=True), "topics that no ACL names are open to everyone"
    assert any_topic(acl(DENY, Op.ALL, "*"), supers=ALICE)


@pytest.mark.parametrize(
    "denied",
    [
        acl(DENY, Op.WRITE, "abc"),
        acl(DENY, Op.ALL, "abc"),
        acl(DENY, Op.WRITE, "ab", pattern=PREFIXED),
        acl(DENY, Op.WRITE, "*"),
        acl(DENY, Op.WRITE, "abc", principal=EVERYBODY, host=HOST),
    ],
)
def test_acls_that_cancel_out_leave_nothing(denied: AccessControlEntry) -> None:
    assert not any_topic(acl(operation=Op.WRITE, name="abc"), denied)
    assert any_topic(acl(operation=Op.WRITE, name="b"), denied) == (denied.resource_name != "*")


def test_a_prefix_is_cancelled_by_a_shorter_one_only() -> None:
    allowed = acl(operation=Op.WRITE, name="ab", pattern=PREFIXED)
    assert not any_topic(allowed, acl(DENY, Op.WRITE, "a", pattern=PREFIXED))
    assert not any_topic(allowed, acl(DENY, Op.WRITE, "ab", pattern=PREFIXED))
    assert any_topic(allowed, acl(DENY, Op.WRITE, "abc", pattern=PREFIXED))
    assert any_topic(allowed, acl(DENY, Op.WRITE, "ab"))


# -- all together


NAMES = st.sampled_from(["a", "ab", "abc", "abd", "b", "*", "*a"])
ACLS = st.builds(
    acl,
    st.sampled_from([ALLOW, ALLOW, DENY]),
    st.sampled_from(
        [Op.ALL, Op.READ, Op.WRITE, Op.ALTER_CONFIGS, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.CREATE]
    ),
    NAMES,
    principal=st.sampled_from([ALICE, BOB, EVERYBODY]),
    pattern=st.sampled_from([LITERAL, PREFIXED]),
    host=st.sampled_from(["*", HOST, "::ffff:10.0.0.1", "10.0.0.2"]),
    type=st.sampled_from([TOPIC, GROUP]),
)
QUESTIONS = st.tuples(
    st.sampled_from([ALICE, BOB, "Robot:r2", "User:root"]),
    st.sampled_from([HOST, "10.0.0.2", "10.0.0.3"]),
    st.sampled_from(
        [Op.READ, Op.WRITE, Op.ALTER_CONFIGS, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.CREATE, Op.DELETE]
    ),
    st.sampled_from([TOPIC, GROUP]),
)


def names_resource(entry: AccessControlEntry, type: int, name: str) -> bool:
    if entry.resource_type != type:
        return False
    if entry.pattern_type == PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name in (name, "*")


def concerns(entry: AccessControlEntry, who: str, host: str) -> bool:
    return entry.principal in (who, EVERYBODY) and entry.host.removeprefix("::ffff:") in (host, "*")


def scan(
    acls: Iterable[AccessControlEntry],
    everyone: bool,
    who: str,
    host: str,
    operation: int,
    type: int,
    name: str,
) -> bool:
    """Kafka's definition, word by word."""
    implying = {
        Op.DESCRIBE: {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER},
        Op.DESCRIBE_CONFIGS: {Op.ALTER_CONFIGS},
    }
    if who == "User:root":
        return True
    naming = [entry for entry in acls if names_resource(entry, type, name)]
    mine = [entry for entry in naming if concerns(entry, who, host)]
    if any(entry.permission_type == DENY and entry.operation in (operation, Op.ALL) for entry in mine):
        return False
    enough = {operation, Op.ALL, *implying.get(Op(operation), set())}
    if any(entry.permission_type == ALLOW and entry.operation in enough for entry in mine):
        return True
    return everyone and not naming


def scan_any(
    acls: list[AccessControlEntry], everyone: bool, who: str, host: str, operation: int, type: int
) -> bool:
    """Kafka's definition: a name that nobody gave an ACL, then the patterns that are left of what is allowed."""
    if scan(acls, everyone, who, host, operation, type, "hardcode"):
        return True
    mine = [
        entry
        for entry in acls
        if entry.resource_type == type
        and concerns(entry, who, host)
        and entry.operation in (operation, Op.ALL)
    ]
    patterns = {
        permission: {(e.pattern_type, e.resource_name) for e in mine if e.permission_type == permission}
        for permission in (ALLOW, DENY)
    }
    if (LITERAL, "*") in patterns[DENY]:
        return False
    if (LITERAL, "*") in patterns[ALLOW]:
        return True
    prefixes = tuple(name for pattern, name in patterns[DENY] if pattern == PREFIXED)
    return any(
        not name.startswith(prefixes) and not (pattern == LITERAL and (LITERAL, name) in patterns[DENY])
        for pattern, name in patterns[ALLOW]
    )


@settings(max_examples=400, deadline=None)
@given(acls=st.lists(ACLS, max_size=12), everyone=st.booleans(), question=QUESTIONS, name=NAMES)
def test_the_index_answers_as_a_scan_of_all_acls(
    acls: list[AccessControlEntry], everyone: bool, question: tuple[str, str, Op, AclResourceType], name: str
) -> None:
    authorizer = by(*acls, everyone=everyone, supers="User:root")
    who, host, operation, type = question
    expected = scan(acls, everyone, who, host, operation, type, name)
    assert authorizer.allows(*question, name) == expected
    verdict = authorizer.explain(*question, name)
    assert verdict.allowed == expected
    assert (verdict.rule == "DefaultAllow") <= everyone
    assert authorizer.allows_any(*question) == scan_any(acls, everyone, *question)


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), ACLS), max_size=30))
def test_any_order_of_adding_and_removing_gives_the_index_of_what_is_left(
    steps: list[tuple[bool, AccessControlEntry]],
) -> None:
    index, left = AclIndex(), []
    for add, entry in steps:
        if add or entry not in left:
            index = index.changed([], [entry])
            left.append(entry)
        else:
            index = index.changed([entry], [])
            left.remove(entry)
    assert index == AclIndex.of(reversed(left))
    for entry in left:
        index = index.changed([entry], [])
    assert index == AclIndex(), "what is gone leaves nothing behind"


def test_removing_what_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError):
        AclIndex.of([acl()]).changed([acl(operation=Op.WRITE)], [])


def test_one_of_two_acls_that_say_the_same_can_go() -> None:
    same = (acl(host=HOST), acl(host="::ffff:10.0.0.1"))
    index = AclIndex.of(same).changed(same[:1], [])
    assert may(Authorizer(index))


# -- from the metadata log


def replay(image: Image, *records: Record) -> Changes:
    delta = Delta(image)
    for offset, record in enumerate(records, image.offset + 1):
        delta.replay(record, offset)
    return delta.apply(epoch=1)


def added(entry: AccessControlEntry, number: int | None = None) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(id_of(entry) if number is None else UUID(int=number), *astuple(entry))


@pytest.mark.invariant("M1")
@settings(max_examples=100, deadline=None)
@given(batches=st.lists(st.lists(st.tuples(st.integers(1, 6), ACLS | st.none()), max_size=5), max_size=6))
def test_an_index_that_follows_the_log_is_that_of_the_image_and_of_its_snapshot(
    batches: list[list[tuple[int, AccessControlEntry | None]]],
) -> None:
    image, index = EMPTY, AclIndex()
    for batch in batches:
        records = [
            RemoveAccessControlEntryRecord(UUID(int=number)) if entry is None else added(entry, number)
            for number, entry in batch
        ]
        changes = replay(image, *records)
        image, index = changes.after, index.moved(changes)
        assert index == AclIndex.of(image.acls.values())
    delta = Delta.from_snapshot(EMPTY)
    for record in snapshot(image):
        delta.replay(record, 100)
    loaded = delta.apply(offset=100, epoch=1)
    assert loaded.after.acls == image.acls
    assert AclIndex().moved(loaded) == index


@pytest.mark.invariant("M1")
def test_a_snapshot_changes_only_what_differs() -> None:
    kept, gone, new = acl(name="kept"), acl(name="gone"), acl(name="new")
    held = replay(EMPTY, added(kept), added(gone)).after
    delta = Delta.from_snapshot(held)
    for record in (added(kept), added(new)):
        delta.replay(record, 9)
    changes = delta.apply(offset=9, epoch=2)
    assert set(changes.acls) == {id_of(gone), id_of(new)}
    assert AclIndex.of(held.acls.values()).moved(changes) == AclIndex.of([kept, new])


def test_an_acl_that_comes_and_goes_in_one_batch_is_no_change() -> None:
    assert replay(EMPTY, added(acl()), RemoveAccessControlEntryRecord(id_of(acl()))).acls == ()


class CountedName(str):
    """Counts how often a part of it is taken."""

    parts = 0

    def __getitem__(self, part: object) -> str:
        CountedName.parts += 1
        return super().__getitem__(part)  # type: ignore[index]


@pytest.mark.attack(64)
def test_a_question_about_a_very_long_name_takes_no_more_steps() -> None:
    """Clients choose its length."""
    index = AclIndex.of([acl(name="p" * length, principal=BOB, pattern=PREFIXED) for length in range(1, 10)])
    authorizer = Authorizer(index, allow_everyone=True)

    def steps(name: str) -> int:
        CountedName.parts = 0
        assert authorizer.granted(ALICE, HOST, TOPIC, CountedName(name)) == EVERYTHING
        return CountedName.parts

    assert 0 < steps("x" * 32_000) == steps("x" * 20)
