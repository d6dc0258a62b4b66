import pytest

from rookery.core.config import node
from rookery.core.config.listeners import Endpoint, listeners_of
from rookery.core.config.loading import load
from rookery.core.config.options import ConfigError, Settings


def settings(**keys: str) -> Settings:
    return load([("file", {key.replace("_", "."): value for key, value in keys.items()})]).settings


@pytest.mark.row(156)
def test_three_listeners_with_a_protocol_map_and_advertised_addresses() -> None:
    found = listeners_of(
        settings(
            listeners="INTERNAL://0.0.0.0:19092,EXTERNAL://0.0.0.0:9092,CONTROLLER://:9093",
            advertised_listeners="INTERNAL://kafka-1:19092,EXTERNAL://127.0.0.1:9092",
            listener_security_protocol_map="INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            inter_broker_listener_name="INTERNAL",
        )
    )
    assert [listener.name for listener in found.clients] == ["INTERNAL", "EXTERNAL"]
    assert found.client("INTERNAL").advertised == Endpoint("INTERNAL", "kafka-1", 19092)
    assert found.client("EXTERNAL").bind == Endpoint("EXTERNAL", "0.0.0.0", 9092)
    assert [listener.bind.port for listener in found.controllers] == [9093]
    assert found.inter_broker == "INTERNAL"


def test_without_listeners_they_follow_from_the_advertised_ones() -> None:
    protocols = "EXTERNAL:PLAINTEXT"
    found = listeners_of(
        settings(advertised_listeners="EXTERNAL://kafka:9092", listener_security_protocol_map=protocols)
    )
    assert found.client("EXTERNAL").bind == Endpoint("EXTERNAL", "0.0.0.0", 9092)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"listeners": "9092"}, "NAME://host:port is needed"),
        ({"listeners": "A://h:70000"}, "a port from 0 to 65535"),
        ({"listeners": "A://h:1,A://h:2"}, "named twice"),
        ({"listeners": "A://h:1", "advertised_listeners": "B://h:1"}, "B is not among listeners"),
        ({"listeners": "SSL://h:1", "inter_broker_listener_name": "B"}, "one of the listeners SSL"),
        (
            {"listeners": "SSL://h:1", "inter_broker_listener_name": "SSL", "security_inter_broker_protocol": "SSL"},
            "keep one of them",
        ),
        ({"listeners": "PLAINTEXT://h:1", "security_inter_broker_protocol": "SSL"}, "no listener speaks it"),
        ({"listeners": "A://h:1", "listener_security_protocol_map": "A:ROT13"}, "NAME:PROTOCOL"),
        ({"listeners": "A://h:1"}, "is A to be plain or secured"),
        ({"listeners": "A://h:1", "listener_security_protocol_map": "B:PLAINTEXT"}, "is A to be plain or secured"),
    ],
)
def test_contradictions_are_refused(keys: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        listeners_of(settings(**keys))


def test_ipv6() -> None:
    found = listeners_of(settings(listeners="PLAINTEXT://[::1]:9092"))
    assert found.client("PLAINTEXT").bind.host == "::1"


def test_beside_a_secured_listener_none_is_plain_by_accident() -> None:
    listeners = "SSL://127.0.0.1:9093,OUTSIDE://127.0.0.1:9092"
    with pytest.raises(ConfigError, match="is OUTSIDE to be plain or secured"):
        listeners_of(Settings(node.TABLE).having({"listeners": listeners}))
