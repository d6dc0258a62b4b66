"""How many may be connected: strangers apart from clients, and brokers find room."""

from rookery.broker.server.authentication import AuthenticationSettings
from rookery.broker.server.newcomers import MAX_PER_IP, Newcomers
from rookery.broker.server.secured import Protection
from rookery.core.security.sasl import PlainServer, PlainUsers
from rookery.core.wire.apis.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest
from rookery.core.wire.apis.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest
from rookery.core.wire.header import request_frame
from tests.unit.broker.server.rig import Rig, RigClient, frame_of

USERS = PlainUsers.of({"ann": "secret"})
PROTECTION = Protection(sasl=AuthenticationSettings({"PLAIN": lambda: PlainServer(USERS)}, {}))


def test_the_oldest_gives_way_to_the_newest() -> None:
    gone: list[str] = []
    newcomers = Newcomers(lambda: (2, 2))
    for who in "abc":
        assert newcomers.enter(who, f"address of {who}", lambda who=who: gone.append(who)) is None  # type: ignore[misc]
    assert gone == ["a"]
    newcomers.leave("b")
    newcomers.leave("a")
    assert newcomers.enter("d", "address of d", lambda: gone.append("d")) is None
    assert (gone, len(newcomers)) == (["a"], 2)


def test_an_address_has_only_its_share() -> None:
    newcomers = Newcomers(lambda: (10, 2))
    assert [newcomers.enter(who, "10.0.0.1", lambda: None) for who in "abc"] == [None, None, f"{MAX_PER_IP}=2"]
    assert newcomers.enter("d", "10.0.0.2", lambda: None) is None
    newcomers.leave("a")
    assert newcomers.enter("e", "10.0.0.1", lambda: None) is None


def log_in(client: RigClient) -> None:
    for api, version, request in (
        (SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")),
        (SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=b"\0ann\0secret")),
    ):
        client.receive(b"".join(bytes(each) for each in request_frame(api, version, 1, "t", request)))


def test_who_has_authenticated_is_not_disturbed_by_any_number_who_do_not() -> None:
    rig = Rig(unauthenticated_max=20, unauthenticated_per_ip_max=5)
    client = rig.stranger(PROTECTION)
    log_in(client)
    strangers = [rig.stranger(PROTECTION, f"10.1.{at % 100}.1") for at in range(10_000)]
    assert sum(each.is_open for each in strangers) == len(rig.shared.unauthenticated) == 20
    late = rig.stranger(PROTECTION, "10.2.0.1")
    log_in(late)
    assert late.is_open
    assert client.is_open
    for each in strangers:
        each.leave()
    assert len(rig.shared.unauthenticated) == 0
    assert rig.limits.count == 2


def test_one_address_cannot_take_the_places_of_all() -> None:
    rig = Rig(unauthenticated_max=20, unauthenticated_per_ip_max=5)
    patient = rig.stranger(PROTECTION, "10.0.0.1")
    assert sum(rig.stranger(PROTECTION, "10.6.6.6").is_open for _ in range(100)) == 5
    log_in(patient)
    assert patient.is_open


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


def test_brokers_do_not_turn_each_other_out() -> None:
    rig = Rig(reserved="INTERNAL", connections_max=2)
    brokers = [rig.client(listener="INTERNAL") for _ in range(3)]
    assert [each.is_open for each in brokers] == [True, True, False]
