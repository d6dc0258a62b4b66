"""How many may be connected: strangers apart from clients, and brokers find room."""

from pathlib import Path
from typing import cast

import pytest

from rookery.broker.server.authentication import AuthenticationSettings
from rookery.broker.server.secured import ListenerAdmission, Protection
from rookery.broker.server.tls import ListenerTls
from rookery.broker.server.unauthenticated import MAX_PER_IP, Unauthenticated
from rookery.core.net.tls_listener import Handshake
from rookery.core.security.sasl import PlainServer, PlainUsers
from rookery.core.wire.apis.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest
from rookery.core.wire.apis.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest
from rookery.core.wire.header import request_frame
from tests.certificates import Authority
from tests.unit.broker.server.rig import Rig, RigClient, frame_of

USERS = PlainUsers.of({"ann": "secret"})
PROTECTION = Protection(sasl=AuthenticationSettings({"PLAIN": lambda: PlainServer(USERS)}, {}))


def test_the_oldest_gives_way_to_the_newest() -> None:
    gone: list[str] = []
    newcomers = Unauthenticated(lambda: (2, 2))
    for who in "abc":
        assert newcomers.enter(who, f"address of {who}", "L", lambda who=who: gone.append(who)) is None  # type: ignore[misc]
    assert gone == ["a"]
    newcomers.leave("b")
    newcomers.leave("a")
    assert newcomers.enter("d", "address of d", "L", lambda: gone.append("d")) is None
    assert (gone, len(newcomers)) == (["a"], 2)


def test_an_address_has_only_its_share() -> None:
    newcomers = Unauthenticated(lambda: (10, 2))
    assert [newcomers.enter(who, "10.0.0.1", "L", lambda: None) for who in "abc"] == [None, None, f"{MAX_PER_IP}=2"]
    assert newcomers.enter("d", "10.0.0.2", "L", lambda: None) is None
    newcomers.leave("a")
    assert newcomers.enter("e", "10.0.0.1", "L", lambda: None) is None


def log_in(client: RigClient) -> None:
    for api, version, request in (
        (SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")),
        (SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=b"\0ann\0secret")),
    ):
        client.receive(b"".join(bytes(each) for each in request_frame(api, version, 1, "t", request)))


@pytest.mark.attack(7)
def test_who_has_authenticated_is_not_disturbed_by_any_number_who_do_not() -> None:
    rig = Rig(unauthenticated_max=20, unauthenticated_per_ip_max=5)
    client = rig.stranger(PROTECTION)
    log_in(client)
    strangers = [rig.stranger(PROTECTION, f"10.1.{at % 100}.1") for at in range(10_000)]
    assert sum(each.is_open for each in strangers) == len(rig.shared.slots.unauthenticated) == 20
    late = rig.stranger(PROTECTION, "10.2.0.1")
    log_in(late)
    assert late.is_open
    assert client.is_open
    for each in strangers:
        each.leave()
    assert len(rig.shared.slots.unauthenticated) == 0
    assert rig.limits.count == 2


def test_one_address_cannot_take_the_places_of_all() -> None:
    rig = Rig(unauthenticated_max=20, unauthenticated_per_ip_max=5)
    patient = rig.stranger(PROTECTION, "10.0.0.1")
    assert sum(rig.stranger(PROTECTION, "10.6.6.6").is_open for _ in range(100)) == 5
    log_in(patient)
    assert patient.is_open


@pytest.mark.attack(7)
def test_a_broker_comes_in_when_clients_have_taken_all_places() -> None:
    rig = Rig(reserved="INTERNAL", connections_max=3)
    clients = [rig.client() for _ in range(3)]
    for client in clients:
        rig.scheduler.advance(0.1)
        client.receive(frame_of("x"))
    rig.scheduler.advance(0.1)
    clients[0].receive(frame_of("x"))
    assert not rig.client().is_open
    broker = rig.client(listener="INTERNAL")
    assert broker.is_open
    assert [client.is_open for client in clients] == [True, False, True]
    clients[1].leave()
    assert rig.limits.count == 3


def test_a_broker_needs_a_place_when_it_is_known_and_strangers_never_do() -> None:
    """Nobody loses a connection to strangers on the listener of brokers, however many they are."""
    rig = Rig(reserved="INTERNAL", connections_max=3, unauthenticated_per_ip_max=5)
    clients = [rig.client() for _ in range(3)]
    strangers = [rig.stranger(PROTECTION, "10.6.6.6", "INTERNAL") for _ in range(20)]
    assert [sum(each.is_open for each in group) for group in (clients, strangers)] == [3, 5]
    broker = rig.stranger(PROTECTION, "10.0.0.1", "INTERNAL")
    assert all(client.is_open for client in clients)
    log_in(broker)
    assert broker.is_open
    assert sum(client.is_open for client in clients) == 2


def test_a_stranger_gives_its_place_to_a_broker_before_any_client_does() -> None:
    rig = Rig(reserved="INTERNAL", connections_max=3)
    client, old, new = rig.client(), rig.stranger(PROTECTION), rig.stranger(PROTECTION)
    log_in(rig.stranger(PROTECTION, "10.0.0.1", "INTERNAL"))
    assert [each.is_open for each in (client, old, new)] == [True, False, True]


def test_strangers_cannot_take_the_places_of_clients() -> None:
    rig = Rig(connections_max=3)
    strangers = [rig.stranger(PROTECTION) for _ in range(3)]
    late = rig.stranger(PROTECTION)
    log_in(late)
    plain = rig.client()
    assert [each.is_open for each in (*strangers, late, plain)] == [False, False, True, True, True]
    log_in(strangers[2])
    assert not rig.client().is_open, "all are known now"


def test_who_is_over_the_limit_of_strangers_makes_nobody_give_way() -> None:
    rig = Rig(connections_max=3, unauthenticated_per_ip_max=1)
    patient = rig.stranger(PROTECTION, "10.0.0.1")
    rig.client()
    rig.stranger(PROTECTION, "10.6.6.6")
    assert not rig.stranger(PROTECTION, "10.6.6.6").is_open
    assert patient.is_open


class Hand:
    """A handshake without a socket."""

    def __init__(self, address: str) -> None:
        self.address, self.given_up = address, False

    def give_up(self) -> None:
        self.given_up = True


def doors(rig: Rig, folder: Path) -> tuple[ListenerAdmission, ListenerAdmission]:
    """Of clients and of brokers."""
    authority = Authority(folder)
    texts = {"ssl.keystore.location": str(authority.issue("broker", "127.0.0.1"))}
    protection = Protection(tls=ListenerTls("SECURE", texts))
    return ListenerAdmission("SECURE", protection, rig.shared), ListenerAdmission("INTERNAL", protection, rig.shared)


def shake(door: ListenerAdmission, address: str = "10.6.6.6") -> tuple[Hand, bool]:
    hand = Hand(address)
    return hand, door.admit(cast(Handshake, hand))


def test_silent_handshakes_do_not_keep_brokers_out_or_cost_clients_their_place(tmp_path: Path) -> None:
    rig = Rig(reserved="INTERNAL", connections_max=3, unauthenticated_per_ip_max=10)
    of_clients, of_brokers = doors(rig, tmp_path)
    client = rig.client()
    silent = [shake(of_clients)[0] for _ in range(4)]
    assert [each.given_up for each in silent] == [True, True, False, False], "the oldest give way to the newest"
    for each in silent[:2]:
        of_clients.failed(cast(Handshake, each), None)
    broker, admitted = shake(of_brokers, "10.0.0.1")
    assert admitted
    assert not silent[2].given_up, "not before the broker is known"
    assert rig.shared.slots.keep("INTERNAL") is None
    assert (silent[2].given_up, client.is_open) == (True, True)
    of_brokers.done(cast(Handshake, broker))


def test_handshakes_over_their_limit_on_the_listener_of_brokers_cost_nobody_anything(tmp_path: Path) -> None:
    rig = Rig(reserved="INTERNAL", connections_max=2, unauthenticated_per_ip_max=1)
    _, of_brokers = doors(rig, tmp_path)
    clients = [rig.client() for _ in range(2)]
    admitted = [shake(of_brokers)[1] for _ in range(5)]
    assert admitted == [True, False, False, False, False]
    assert all(each.is_open for each in clients)
    assert rig.limits.count == 3


def test_brokers_do_not_turn_each_other_out() -> None:
    rig = Rig(reserved="INTERNAL", connections_max=2)
    brokers = [rig.client(listener="INTERNAL") for _ in range(3)]
    assert [each.is_open for each in brokers] == [True, True, False]
