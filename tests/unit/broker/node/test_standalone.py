"""A node without a quorum is one by itself; one with half a quorum is left alone, to be refused with its reason."""

import pytest

from rookery.broker.node.settings import with_quorum
from rookery.core.config import node
from rookery.core.config.listeners import listeners_of
from rookery.core.config.loading import load


def completed(**keys: str) -> dict[str, object]:
    found = with_quorum(load([("file", {key.replace("_", "."): value for key, value in keys.items()})]).settings)
    ends = listeners_of(found.settings)
    return {
        "alone": found.alone,
        "id": found.settings[node.NODE_ID],
        "voters": found.settings[node.CONTROLLER_QUORUM_VOTERS],
        "clients": [str(listener.bind) for listener in ends.clients],
        "controllers": [str(listener.bind) for listener in ends.controllers],
    }


def test_a_node_that_was_given_nothing() -> None:
    assert completed() == {
        "alone": True,
        "id": 1,
        "voters": ("1@127.0.0.1:9093",),
        "clients": ["PLAINTEXT://127.0.0.1:9092"],
        "controllers": ["CONTROLLER://127.0.0.1:9093"],
    }


def test_clients_keep_their_ports() -> None:
    found = completed(
        node_id="7",
        listeners="A://0.0.0.0:9092,B://0.0.0.0:9093",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
    )
    assert found["voters"] == ("7@127.0.0.1:9193",)
    assert found["clients"] == ["A://0.0.0.0:9092", "B://0.0.0.0:9093"]
    assert found["controllers"] == ["CONTROLLER://127.0.0.1:9193"]


def test_a_controller_listener_is_used_where_there_is_one() -> None:
    found = completed(listeners="PLAINTEXT://:9092,CONTROLLER://:9999")
    assert found["voters"] == ("1@127.0.0.1:9999",)


@pytest.mark.parametrize(
    "told",
    [
        {"process.roles": "broker"},
        {"controller.quorum.voters": "1@a:9093"},
        {"controller.quorum.bootstrap.servers": "a:9093"},
    ],
)
def test_who_speaks_of_a_quorum_means_it(told: dict[str, str]) -> None:
    settings = load([("file", told)]).settings
    found = with_quorum(settings)
    assert not found.alone
    assert found.settings is settings
