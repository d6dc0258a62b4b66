"""The authorizer by its options: which are accepted, what they mean, and what an operator is told."""

import pytest

from rookery.broker.node.authorization import (
    KNOWN_AUTHORIZERS,
    PerMinute,
    authorizer_of,
    guard_of,
    note_on_brokers,
    notes_on,
)
from rookery.core.config.loading import load
from rookery.core.config.options import ConfigError, Settings
from rookery.core.metadata.acl_codes import AclOperation, AclResourceType
from rookery.core.metrics import Metrics
from rookery.core.security.authorizer import Authorizer
from rookery.core.security.principal import ANONYMOUS, KafkaPrincipal

READ, TOPIC = AclOperation.READ, AclResourceType.TOPIC


def settings(**keys: str) -> Settings:
    return load([("file", {key.replace("_", "."): value for key, value in keys.items()})]).settings


def test_there_is_none_unless_it_is_named() -> None:
    assert authorizer_of(settings(super_users="User:admin")) is None
    assert notes_on(None) == ()
    assert guard_of(settings(), lambda: 0.0, Metrics()) is None


@pytest.mark.row(147)
@pytest.mark.parametrize("name", KNOWN_AUTHORIZERS)
def test_kafkas_authorizers_mean_what_they_mean_in_kafka(name: str) -> None:
    strict = authorizer_of(settings(authorizer_class_name=name, super_users="User:admin;User:CN=ops,O=x"))
    assert strict is not None
    assert not strict.allows("User:alice", "10.0.0.1", READ, TOPIC, "orders")
    assert strict.allows("User:CN=ops,O=x", "10.0.0.1", READ, TOPIC, "orders")
    assert notes_on(strict) == ()


@pytest.mark.row(147)
def test_everybody_may_do_everything_where_no_acl_is_if_the_option_says_so() -> None:
    keys = {"authorizer_class_name": KNOWN_AUTHORIZERS[0], "allow_everyone_if_no_acl_found": "true"}
    lax = authorizer_of(settings(**keys))
    assert lax is not None
    assert lax.allows("User:ANONYMOUS", "10.0.0.1", READ, TOPIC, "orders")
    (note,) = notes_on(lax)
    assert "everybody may do everything" in note


def test_without_super_users_an_operator_is_warned_that_nobody_may_make_the_first_acl() -> None:
    (note,) = notes_on(authorizer_of(settings(authorizer_class_name=KNOWN_AUTHORIZERS[0])))
    assert "super.users" in note
    assert "CLUSTER_ACTION" in note


def test_a_broker_that_may_not_replicate_is_warned_of_before() -> None:
    broker = KafkaPrincipal("User", "broker")
    note = note_on_brokers(Authorizer(super_users=frozenset({"User:admin"})), broker)
    assert note is not None
    assert note.startswith("this broker is User:broker for the other brokers")
    for authorizer in (
        Authorizer(super_users=frozenset({"User:admin", "User:broker"})),
        Authorizer(super_users=frozenset({"User:admin"}), allow_everyone=True),
    ):
        assert note_on_brokers(authorizer, broker) is None


def test_an_authorizer_of_ones_own_is_refused() -> None:
    with pytest.raises(ConfigError, match="StandardAuthorizer"):
        authorizer_of(settings(authorizer_class_name="com.example.Mine", allow_everyone_if_no_acl_found="true"))


@pytest.mark.parametrize("users", ["admin", "User:", ":x", "User:a;b"])
def test_a_super_user_without_a_type_is_refused(users: str) -> None:
    with pytest.raises(ConfigError, match=r"super\.users"):
        authorizer_of(settings(authorizer_class_name=KNOWN_AUTHORIZERS[0], super_users=users))


def test_metrics_have_kafkas_names() -> None:
    metrics, now = Metrics(), [0.0]
    guard = guard_of(settings(authorizer_class_name=KNOWN_AUTHORIZERS[0]), lambda: now[0], metrics)
    assert guard is not None
    access = guard.access(ANONYMOUS, "10.0.0.1")
    for _ in range(6):
        access.topic(READ, "orders")
    now[0] = 30.0
    names = {family.name: metrics.value(family.name) for family in metrics.families}
    assert names == {
        "kafka_server_authorizer_metrics_acls_total_count": 0,
        "kafka_server_authorizer_metrics_authorization_request_rate_per_minute": 12,
        "kafka_server_authorizer_metrics_authorization_allowed_rate_per_minute": 0,
        "kafka_server_authorizer_metrics_authorization_denied_rate_per_minute": 12,
    }


def test_a_rate_is_that_of_the_last_minute() -> None:
    now, count = [0.0], [0]
    rate = PerMinute(lambda: count[0], lambda: now[0])
    for _ in range(120):
        now[0] += 1
        count[0] += 10
        rate.read()
    assert rate.read() == pytest.approx(600)
    for _ in range(120):
        now[0] += 1
        rate.read()
    assert rate.read() == 0
    assert len(rate._samples) < 70
