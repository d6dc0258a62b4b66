"""A node does not start less safe than its options ask for."""

from pathlib import Path

import pytest

from rookery.broker.node.security import NodeSecurity, secure
from rookery.broker.node.security_checks import asks_for_security, check_security
from rookery.core.clock import SystemClock
from rookery.core.config.listeners import listeners_of
from rookery.core.config.loading import load
from rookery.core.config.options import ConfigError, Settings
from rookery.core.metadata.image import EMPTY
from rookery.core.net.security import PLAINTEXT
from tests.certificates import Authority

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="b" password="pw-b" user_b="pw-b" user_alice="pw-a";'
    ),
}


def settings(keys: dict[str, str]) -> Settings:
    return load([("file", keys)]).settings


def secured(keys: dict[str, str]) -> NodeSecurity:
    made = settings(keys)
    check_security(made)
    return secure(made, listeners_of(made), lambda: EMPTY, "cluster", SystemClock())


def client_auth(keys: dict[str, str]) -> str:
    tls = secured(keys).protections["SASL_SSL"].tls
    return "" if tls is None else tls.tls.client_auth


@pytest.mark.parametrize(
    "secured_by",
    [{"listeners": "SASL_SSL://:9092,CONTROLLER://:9093"}, {"authorizer.class.name": AUTHORIZER}],
)
def test_a_plain_control_plane_off_loopback_is_refused(secured_by: dict[str, str]) -> None:
    keys = {"listeners": "PLAINTEXT://:9092,CONTROLLER://0.0.0.0:9093", **secured_by}
    with pytest.raises(ConfigError, match="map CONTROLLER to SSL"):
        check_security(settings(keys))
    check_security(settings({**keys, "rookery.allow.plaintext.controller": "true"}))
    tls = {**keys, "listener.security.protocol.map": "CONTROLLER:SSL,SASL_SSL:SASL_SSL"}
    check_security(settings(tls))
    for still_plain in ("accept", "use"):
        both = {**tls, "rookery.controller.plaintext": still_plain}
        with pytest.raises(ConfigError, match="still take calls without TLS"):
            check_security(settings(both))
        check_security(settings({**both, "rookery.allow.plaintext.controller": "true"}))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_node_that_is_only_a_controller_asks_for_security_by_its_own_listener(protocol: str) -> None:
    keys = {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"}
    made = settings({**keys, "listener.security.protocol.map": f"CONTROLLER:{protocol}"})
    assert asks_for_security(made) == (protocol == "SSL")


@pytest.mark.parametrize(
    "key",
    ["ssl.client.auth", "sasl.enabled.mechanisms", "plain.sasl.jaas.config", "connections.max.reauth.ms"],
)
def test_protection_of_a_listener_that_is_plain_is_refused(key: str) -> None:
    """A slip in the map of protocols must not leave a listener open that has options of its own."""
    value = {"ssl.client.auth": "required", "connections.max.reauth.ms": "9"}.get(key, "PLAIN")
    keys = {"listeners": f"EXTERNAL://127.0.0.1:9092,{LOOPBACK}", f"listener.name.external.{key}": value}
    with pytest.raises(ConfigError, match="EXTERNAL is PLAINTEXT, so this would have no effect"):
        check_security(settings({**keys, "listener.security.protocol.map": "EXTERNAL:PLAINTEXT"}))
    check_security(settings({**keys, "listener.security.protocol.map": "EXTERNAL:SASL_SSL,CONTROLLER:PLAINTEXT"}))


def test_a_broker_whose_controllers_are_plain_does_not_pass_over_their_certificates() -> None:
    keys = {
        "process.roles": "broker",
        "listeners": "PLAINTEXT://:9092",
        "controller.quorum.bootstrap.servers": "controller-1:9093",
        "listener.name.controller.ssl.truststore.location": "/ca.pem",
    }
    with pytest.raises(ConfigError, match="CONTROLLER is PLAINTEXT, so this would have no effect"):
        check_security(settings(keys))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.enabled.protocols", "TLSv1.3"),
        ("ssl.cipher.suites", "TLS_AES_256_GCM_SHA384"),
        ("ssl.principal.mapping.rules", "DEFAULT"),
        ("ssl.endpoint.identification.algorithm", ""),
    ],
)
def test_what_grpc_decides_cannot_be_asked_of_the_controllers_listener(key: str, value: str) -> None:
    keys = {"listeners": f"SSL://:9092,{LOOPBACK}", "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL"}
    check_security(settings(keys))
    with pytest.raises(ConfigError, match="reached by gRPC"):
        check_security(settings({**keys, f"listener.name.controller.{key}": value}))


LOOPBACK = "CONTROLLER://127.0.0.1:9093"


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            {"listeners": f"PLAINTEXT://:9092,{LOOPBACK}", "super.users": "User:a; User:ANONYMOUS"},
            "whoever reaches listener PLAINTEXT may do everything",
        ),
        (
            {"listeners": f"SSL://:9092,{LOOPBACK}", "super.users": "User:ANONYMOUS", "ssl.client.auth": "requested"},
            "whoever reaches listener SSL may do everything",
        ),
        (
            {"listeners": f"PLAINTEXT://127.0.0.1:9092,{LOOPBACK}", "rookery.http.listener": "0.0.0.0:8080"},
            "set rookery.http.token, or bind it to 127.0.0.1",
        ),
        (
            {"listeners": f"SASL_SSL://127.0.0.1:9092,{LOOPBACK}", "ssl.client.auth": "required"},
            "only listener.name.sasl_ssl.ssl.client.auth counts",
        ),
    ],
)
def test_what_is_open_on_a_secured_node_is_warned_of(keys: dict[str, str], says: str) -> None:
    notes = check_security(settings({"authorizer.class.name": AUTHORIZER, **keys}))
    assert any(says in note for note in notes), notes
    closed = {
        "super.users": "User:a",
        "rookery.http.token": "t",
        "ssl.client.auth": "none",
        "rookery.http.listener": "0.0.0.0:8080",
    }
    assert check_security(settings({"authorizer.class.name": AUTHORIZER, **keys, **closed})) == ()


def test_an_authorizer_with_the_controller_on_loopback_starts() -> None:
    keys = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    assert check_security(settings({**keys, "listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093"})) == ()


def test_a_broker_that_reaches_plain_controllers_elsewhere_is_refused() -> None:
    keys = {
        "process.roles": "broker",
        "listeners": "SASL_SSL://:9092",
        "controller.quorum.bootstrap.servers": "controller-1:9093",
    }
    with pytest.raises(ConfigError, match="controller-1:9093"):
        check_security(settings(keys))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI"),
        ({"sasl.enabled.mechanisms": "ROT13"}, "the SASL mechanisms are"),
        ({"sasl.enabled.mechanisms": ""}, "speaks SASL"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"}, "offers PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "username and password of this broker"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": "my.Module required;"}, "none of Kafka's own"),
        ({"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}, "address of the keys"),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": "http://idp/keys",
            },
            "https",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
                "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
                    f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="pw-x";'
                ),
            },
            "tokens without a signature",
        ),
        (
            {"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f'{SCRAM_MODULE} required user_b="pw-b";'},
            "is none of username",
        ),
        ({"sasl.jaas.config": "x"}, "by listener and mechanism"),
        ({"listener.name.other.ssl.client.auth": "none"}, "no listener other"),
        ({"listener.name.sasl_plaintext.ssl.client.auth": "required"}, "SASL_PLAINTEXT is SASL_PLAINTEXT, so this"),
        ({"listener.name.controller.ssl.keystore.location": "/pw-x"}, "CONTROLLER is PLAINTEXT, so this would have no"),
    ],
)
async def test_what_cannot_be_served_is_refused_without_showing_secrets(keys: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        secured({**SASL, **keys})
    assert "pw-" not in str(caught.value)


async def test_a_listener_with_sasl_gets_its_mechanisms() -> None:
    made = secured(SASL)
    gate = made.protections["SASL_PLAINTEXT"].sasl
    assert gate is not None
    assert sorted(gate.mechanisms) == ["PLAIN", "SCRAM-SHA-256"]
    assert made.inter_broker is not PLAINTEXT
    assert "pw-" not in repr(made)


async def test_a_jaas_file_gives_the_login(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(f'KafkaServer {{ {SCRAM_MODULE} required username="b" password="pw-b"; }};')
    keys = {
        "listeners": SASL["listeners"],
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "rookery.jaas.file": str(file),
    }
    assert secured(keys).inter_broker is not PLAINTEXT


async def test_only_its_own_client_auth_counts_for_a_listener_with_sasl(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    keys = {
        **{key.replace("sasl_plaintext", "sasl_ssl"): value for key, value in SASL.items()},
        "listeners": "SASL_SSL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "ssl.keystore.location": str(authority.issue("broker", "127.0.0.1")),
        "ssl.truststore.location": str(authority.path),
        "ssl.client.auth": "required",
    }
    assert client_auth(keys) == "none"
    assert client_auth({**keys, "listener.name.sasl_ssl.ssl.client.auth": "required"}) == "required"


@pytest.mark.parametrize(
    ("auth", "rules", "principal"),
    [("none", "DEFAULT", "User:ANONYMOUS"), ("required", "RULE:^.*CN=([a-z]+).*$/$1/", "User:broker")],
)
async def test_a_broker_knows_who_it_is_for_the_others(tmp_path: Path, auth: str, rules: str, principal: str) -> None:
    authority = Authority(tmp_path)
    keys = {
        "listeners": f"SSL://127.0.0.1:9092,{LOOPBACK}",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.location": str(authority.issue("broker", "127.0.0.1")),
        "ssl.truststore.location": str(authority.path),
        "ssl.client.auth": auth,
        "ssl.principal.mapping.rules": rules,
    }
    assert str(secured(keys).principal) == principal
    assert str(secured(SASL).principal) == "User:b"
