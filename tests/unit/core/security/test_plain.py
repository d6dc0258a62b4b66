"""PLAIN: three parts, one user, and nobody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.security.sasl import (
    MESSAGE_BYTES_MAX,
    Done,
    Failed,
    PlainClient,
    PlainServer,
    PlainUsers,
    SaslError,
)

SECRET = "alices-Pässword"
USERS = PlainUsers.of({"alice": SECRET, "bob": "b"})


def ask(message: bytes) -> object:
    return PlainServer(USERS).step(message, 0)


def test_the_right_password_is_accepted() -> None:
    client = PlainClient("alice", SECRET)

    assert ask(client.first()) == Done("alice")
    assert client.step(b"") is None


@pytest.mark.parametrize(
    "message",
    [
        b"\0alice\0wrong",
        b"\0nobody\0wrong",
        b"\0alice\0",
        b"\0\0" + SECRET.encode(),
        b"alice\0" + SECRET.encode(),
        b"\0alice\0" + SECRET.encode() + b"\0",
        b"",
        b"\0\0",
        b"\xff\0alice\0x",
        b"\0*\0x",
        b"\0al\nice\0x",
        b"\0alice\0" + b"x" * MESSAGE_BYTES_MAX,
    ],
)
@pytest.mark.attack(18)
def test_everything_else_is_refused(message: bytes) -> None:
    assert isinstance(ask(message), Failed)


@pytest.mark.attack(17)
def test_nobody_acts_for_somebody_else() -> None:
    assert ask(b"alice\0alice\0" + SECRET.encode()) == Done("alice")
    assert isinstance(ask(b"bob\0alice\0" + SECRET.encode()), Failed)


@pytest.mark.attack(16)
def test_a_wrong_password_and_an_unknown_user_look_the_same() -> None:
    assert ask(b"\0alice\0wrong") == ask(b"\0nobody\0wrong")


def test_an_exchange_has_one_step() -> None:
    server = PlainServer(USERS)
    server.step(b"\0alice\0wrong", 0)

    assert isinstance(server.step(PlainClient("alice", SECRET).first(), 0), Failed)


def test_a_client_takes_no_challenge_and_no_broken_name() -> None:
    with pytest.raises(SaslError):
        PlainClient("alice", SECRET).step(b"more")
    with pytest.raises(SaslError) as raised:
        PlainClient("al\0ice", SECRET)
    assert SECRET not in str(raised.value)


def test_secrets_are_not_shown() -> None:
    for value in (USERS, PlainServer(USERS), PlainClient("alice", SECRET)):
        assert SECRET not in repr(value) + str(value)


@given(st.binary(max_size=60))
def test_any_bytes_give_an_outcome(message: bytes) -> None:
    outcome = ask(message)

    assert isinstance(outcome, Failed) or message.endswith((SECRET.encode(), b"bob\0b"))


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_client_and_server_agree(user: str, password: str) -> None:
    server = PlainServer(PlainUsers.of({user: password}))
    try:
        message = PlainClient(user, password).first()
    except SaslError:
        assert "\0" in user + password
        return
    outcome = server.step(message, 0)
    refused = user == "*" or any(ord(each) < 32 or ord(each) == 127 for each in user)
    assert isinstance(outcome, Failed) if refused else outcome == Done(user)
