"""SCRAM: the vectors of the RFC, our client and others' against our server, and what attackers try."""

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import fields

import pytest
from aiokafka.conn import ScramAuthenticator
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient as KafkaPythonClient

from rookery.core.security.sasl import MESSAGE_BYTES_MAX, Challenge, Done, Failed, Outcome, SaslError
from rookery.core.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    Decoys,
    ScramClient,
    ScramCredential,
    ScramError,
    ScramMechanism,
    ScramServer,
    escape_name,
    parse_add_scram,
    unescape_name,
)

SHA256, SHA512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
DECOYS = Decoys(b"the cluster's secret")
PASSWORD = "péncil,=x"
SALT = b"0123456789abcdef01234567"
CREDENTIALS = {kind: ScramCredential.of_password(kind, PASSWORD, SALT) for kind in ScramMechanism}


def server(
    kind: ScramMechanism = SHA256, user: str = "alice", nonce: str = "server-nonce", decoys: Decoys = DECOYS
) -> ScramServer:
    return ScramServer(kind, lambda name: CREDENTIALS[kind] if name == user else None, decoys, nonce)


def client(kind: ScramMechanism = SHA256, user: str = "alice", password: str = PASSWORD) -> ScramClient:
    return ScramClient(kind, user, password, "client-nonce")


def challenge(outcome: Outcome) -> bytes:
    assert isinstance(outcome, Challenge)
    return outcome.message


def exchange(one: ScramClient, other: ScramServer) -> Outcome:
    answer = one.step(challenge(other.step(one.first(), 0)))
    assert answer is not None
    outcome = other.step(answer, 0)
    if isinstance(outcome, Done):
        assert one.step(outcome.message) is None
    return outcome


# --- the exchange -----------------------------------------------------------------------------------------------


def test_the_vector_of_rfc_7677() -> None:
    salt = bytes.fromhex("5b6d99689d12358eeca04b141236fa81")
    credential = ScramCredential.of_password(SHA256, "pencil", salt, 4096)
    tail = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    one = ScramClient(SHA256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    other = ScramServer(SHA256, lambda name: credential if name == "user" else None, DECOYS, tail)

    assert one.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = challenge(other.step(one.first(), 0))
    assert first == f"r=rOprNGfwEbeRWgbNEkqO{tail},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    final = one.step(first)
    assert final == (
        f"c=biws,r=rOprNGfwEbeRWgbNEkqO{tail},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    done = other.step(final, 0)
    assert done == Done("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert one.step(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize("kind", list(ScramMechanism))
@pytest.mark.parametrize("user", ["alice", "al,i=ce", "=2C", "a=3Db", "ülice"])
def test_client_and_server_agree(kind: ScramMechanism, user: str) -> None:
    outcome = exchange(client(kind, user), server(kind, user))

    assert isinstance(outcome, Done)
    assert outcome.user == user


@pytest.mark.parametrize("kind", list(ScramMechanism))
def test_aiokafka_is_understood(kind: ScramMechanism) -> None:
    other = server(kind)
    one = ScramAuthenticator(
        loop=None, sasl_plain_password=PASSWORD, sasl_plain_username="alice", sasl_mechanism=kind.mechanism
    )
    first = challenge(other.step(one.first_message().encode(), 0))
    one.process_server_first_message(first.decode())
    done = other.step(one.final_message().encode(), 0)

    assert isinstance(done, Done)
    one.process_server_final_message(done.message.decode())


@pytest.mark.parametrize("kind", list(ScramMechanism))
def test_kafka_python_is_understood(kind: ScramMechanism) -> None:
    other, one = server(kind), KafkaPythonClient("alice", PASSWORD, kind.mechanism)
    one.process_server_first_message(challenge(other.step(one.first_message(), 0)))
    done = other.step(one.final_message(), 0)

    assert isinstance(done, Done)
    one.process_server_final_message(done.message)


@pytest.mark.parametrize("kind", list(ScramMechanism))
def test_a_wrong_password_is_refused(kind: ScramMechanism) -> None:
    assert isinstance(exchange(client(kind, password="wrong"), server(kind)), Failed)


# --- who exists -------------------------------------------------------------------------------------------------


@pytest.mark.attack(16)
def test_an_unknown_user_gets_the_same_messages_at_the_same_steps() -> None:
    known = server().step(client().first(), 0)
    unknown = server().step(client(user="nobody").first(), 0)

    shape = re.compile(rb"r=client-nonceserver-nonce,s=[A-Za-z0-9+/]{32},i=4096")
    assert shape.fullmatch(challenge(known))
    assert shape.fullmatch(challenge(unknown))
    assert exchange(client(user="nobody"), server()) == exchange(client(password="wrong"), server())


def test_an_unknown_user_has_the_same_salt_on_every_node_and_at_every_try() -> None:
    def salt(user: str, decoys: Decoys) -> bytes:
        return challenge(server(decoys=decoys).step(client(user=user).first(), 0)).split(b",")[1]

    assert salt("nobody", DECOYS) == salt("nobody", Decoys(b"the cluster's secret"))
    assert len({salt("nobody", DECOYS), salt("no one", DECOYS), salt("nobody", Decoys(b"other"))}) == 3


def test_a_user_without_this_mechanism_is_unknown() -> None:
    other = ScramServer(SHA512, lambda _: CREDENTIALS[SHA256], DECOYS, "nonce")

    assert isinstance(exchange(client(SHA512), other), Failed)


def test_the_decoys_credential_opens_nothing() -> None:
    """Even who knows the secret and makes the proof that fits is refused."""
    decoy = DECOYS.credential(SHA256, "nobody")
    other = server()
    first = challenge(other.step(client(user="nobody").first(), 0))
    without = b"c=biws,r=client-nonceserver-nonce"
    signed = b",".join((b"n=nobody,r=client-nonce", first, without))
    proof = bytes(a ^ b for a, b in zip(bytes(32), SHA256.hmac(decoy.stored_key, signed), strict=True))
    assert isinstance(other.step(without + b",p=" + b64encode(proof), 0), Failed)


# --- what attackers try -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        b"p=tls-server-end-point,,n=alice,r=x",
        b"y,,n=alice,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,b=alice,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=*,r=x",
        b"n,,n=al\0ice,r=x",
        b"n,,n=al=ice,r=x",
        b"n,,n=al=2cice,r=x",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=\xc3\xa4",
        b"n,,n=alice,r=a b",
        b"n,,r=x,n=alice",
        b"n,,n=alice",
        b"n,,n=alice,r=x,tokenauth=true",
        b"n,,n=alice,r=x,a=b,tokenauth=false",
        b"\xff",
        b"",
        b"n,,n=alice,r=" + b"x" * MESSAGE_BYTES_MAX,
    ],
)
@pytest.mark.attack(21)
def test_first_messages_that_are_refused(first: bytes) -> None:
    assert isinstance(server().step(first, 0), Failed)


def test_other_extensions_are_let_be_and_signed_as_they_came() -> None:
    one, other = client(), server()
    one._first_bare += ",x=1"
    assert isinstance(exchange(one, other), Done)


def test_an_authorization_id_may_be_the_user() -> None:
    for binding in (b64encode(b"n,a=alice,"), b"biws"):
        other = server()
        first = challenge(other.step(b"n,a=alice,n=alice,r=client-nonce", 0))
        assert isinstance(other.step(final_message(first, binding), 0), Done)


def final_message(server_first: bytes, binding: bytes = b"biws", nonce: bytes | None = None) -> bytes:
    """What somebody who knows the password sends."""
    nonce = server_first.split(b",")[0] if nonce is None else b"r=" + nonce
    without = b"c=" + binding + b"," + nonce
    salted = SHA256.salted_password(PASSWORD, SALT, 4096)
    key = SHA256.hmac(salted, b"Client Key")
    signed = b",".join((b"n=alice,r=client-nonce", server_first, without))
    signature = SHA256.hmac(SHA256.hash(key), signed)
    return without + b",p=" + b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))


@pytest.mark.parametrize(
    "nonce",
    [b"client-nonce", b"client-nonceserver-nonc", b"client-nonceserver-noncE", b"server-nonce", b"", b"x"],
)
@pytest.mark.attack(20)
def test_a_nonce_that_is_cut_or_changed_is_refused_though_the_proof_is_right(nonce: bytes) -> None:
    other = server()
    first = challenge(other.step(client().first(), 0))

    assert isinstance(other.step(final_message(first, nonce=nonce), 0), Failed)


@pytest.mark.parametrize("binding", [b"eSws", b"cD10bHMtdW5pcXVlLCw=", b"", b"biw", b64encode(b"n,a=bob,")])
@pytest.mark.attack(22)
def test_a_foreign_channel_binding_is_refused_though_the_proof_is_right(binding: bytes) -> None:
    other = server()
    first = challenge(other.step(client().first(), 0))

    assert isinstance(other.step(final_message(first, binding), 0), Failed)


@pytest.mark.parametrize(
    "change", [lambda _: b"", lambda p: p[:-4], lambda p: b"AAAA", lambda p: b"%" + p[1:]]
)
@pytest.mark.attack(23)
def test_an_empty_or_short_proof_is_refused(change: Callable[[bytes], bytes]) -> None:
    other = server()
    without, _, proof = final_message(challenge(other.step(client().first(), 0))).rpartition(b",p=")

    assert isinstance(other.step(without + b",p=" + change(proof), 0), Failed)


@pytest.mark.attack(19)
def test_a_replay_is_refused() -> None:
    one, other = client(), server()
    first = one.first()
    final = one.step(challenge(other.step(first, 0)))
    assert final is not None
    assert isinstance(other.step(final, 0), Done)

    again = server(nonce="another-nonce")
    again.step(first, 0)
    assert isinstance(again.step(final, 0), Failed)
    assert isinstance(other.step(final, 0), Failed)


def test_a_failed_exchange_stays_failed() -> None:
    other = server()
    first = challenge(other.step(client().first(), 0))
    right = final_message(first)
    other.step(b"c=biws", 0)

    assert isinstance(other.step(right, 0), Failed)


@given(st.binary(max_size=80))
@example(b"n,,n=alice,r=x,")
@example(b"c=,r=,p=")
def test_any_bytes_give_an_outcome(message: bytes) -> None:
    assert isinstance(server().step(message, 0), Challenge | Failed)
    other = server()
    other.step(client().first(), 0)
    assert isinstance(other.step(message, 0), Failed)


@given(
    st.lists(
        st.sampled_from([b"n", b"y", b"p=", b",", b"=", b"a=", b"r=x", b"m=", b"=2C", b"\xc3", b"alice"])
    )
)
def test_any_mixture_of_attributes_gives_an_outcome(pieces: list[bytes]) -> None:
    assert isinstance(server().step(b"".join(pieces), 0), Challenge | Failed)


# --- what servers try -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        b"r=other,s=AAAA,i=4096",
        b"r=client-nonce,s=AAAA,i=4096",
        b"r=client-nonceX,s=,i=4096",
        b"r=client-nonceX,s=%%%%,i=4096",
        b"r=client-nonceX,s=AAAA,i=4095",
        b"r=client-nonceX,s=AAAA,i=16385",
        b"r=client-nonceX,s=AAAA,i=999999999",
        b"r=client-nonceX,s=AAAA,i=99999999999999999999",
        b"r=client-nonceX,s=AAAA,i=-1",
        b"r=client-nonceX,s=AAAA",
        b"e=other-error",
        b"",
        b"\xff",
    ],
)
def test_a_client_refuses_other_nonces_and_too_few_or_too_many_iterations(message: bytes) -> None:
    with pytest.raises(SaslError) as raised:
        client().step(message)
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize("last", [b"", b"v=", b"v=AAAA", b"e=invalid-proof", b"\xff"])
def test_a_client_refuses_a_server_that_does_not_know_the_keys(last: bytes) -> None:
    one = client()
    one.step(challenge(server().step(one.first(), 0)))
    with pytest.raises(SaslError):
        one.step(last)
    with pytest.raises(SaslError):
        one.step(last)


@given(st.binary(max_size=60))
def test_any_bytes_of_a_server_are_refused_as_declared(message: bytes) -> None:
    with pytest.raises(SaslError):
        client().step(message)


# --- credentials ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [1, ITERATIONS_MIN - 1, ITERATIONS_MAX + 1])
@pytest.mark.attack(24)
def test_iterations_have_bounds(iterations: int) -> None:
    with pytest.raises(ScramError):
        ScramCredential.of_password(SHA256, "x", SALT, iterations)


def test_a_salted_password_and_a_password_give_the_same_credential() -> None:
    for kind, credential in CREDENTIALS.items():
        salted = kind.salted_password(PASSWORD, SALT, ITERATIONS_MIN)
        assert ScramCredential.of_salted(kind, salted, SALT, ITERATIONS_MIN) == credential
        with pytest.raises(ScramError):
            ScramCredential.of_salted(kind, salted[:-1], SALT, ITERATIONS_MIN)


def test_secrets_are_not_shown() -> None:
    credential = CREDENTIALS[SHA256]
    assert [each.name for each in fields(credential) if each.repr] == ["mechanism", "iterations"]
    add = parse_add_scram("SCRAM-SHA-256=[name=alice,password=hush-hush]")
    shown = "".join(f"{each!r}{each!s}" for each in (credential, add, DECOYS, client(), server()))
    for secret in ("hush-hush", "secret", PASSWORD, repr(SALT), repr(credential.stored_key)):
        assert secret not in shown


# --- --add-scram ------------------------------------------------------------------------------------------------


def test_the_form_of_kafkas_storage_tool() -> None:
    found = parse_add_scram('SCRAM-SHA-512=[name=alice,password="a,b ]",iterations=8192,salt="MTIzNA=="]')

    assert (found.user, found.mechanism, found.iterations) == ("alice", SHA512, 8192)
    assert (found.salt, found.password) == (b"1234", "a,b ]")
    assert found.credential(b"unused") == ScramCredential.of_password(SHA512, "a,b ]", b"1234", 8192)


def test_a_salt_is_chosen_if_none_is_given() -> None:
    found = parse_add_scram("SCRAM-SHA-256=[name=alice, password=x=y]")

    assert found.credential(SALT) == ScramCredential.of_password(SHA256, "x=y", SALT)


def test_a_salted_password_can_be_given() -> None:
    salted = SHA256.salted_password("x", SALT, 4096)
    found = parse_add_scram(
        f'SCRAM-SHA-256=[name=a,saltedpassword="{b64encode(salted).decode()}",salt="{b64encode(SALT).decode()}"]'
    )

    assert found.credential(b"unused") == ScramCredential.of_password(SHA256, "x", SALT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "alice",
        "PLAIN=[name=a,password=hush]",
        "SCRAM-SHA-256=name=a,password=hush",
        "SCRAM-SHA-256=[password=hush]",
        "SCRAM-SHA-256=[name=a]",
        "SCRAM-SHA-256=[name=*,password=hush]",
        "SCRAM-SHA-256=[name=a,password=]",
        "SCRAM-SHA-256=[name=a,password=hush,saltedpassword=AAAA,salt=AAAA]",
        "SCRAM-SHA-256=[name=a,saltedpassword=AAAA,salt=AAAA]",
        "SCRAM-SHA-256=[name=a,saltedpassword=AAAA]",
        "SCRAM-SHA-256=[name=a,password=hush,iterations=1]",
        "SCRAM-SHA-256=[name=a,password=hush,iterations=hush]",
        "SCRAM-SHA-256=[name=a,password=hush,salt=%%hush]",
        "SCRAM-SHA-256=[name=a,password=hush,name=b]",
        "SCRAM-SHA-256=[name=a,password=x,hush]",
        "SCRAM-SHA-256=[name=a,password=x,hush=1]",
        'SCRAM-SHA-256=[name=a,password="hush]',
        'SCRAM-SHA-256=[name=a,password="hu"sh]',
        "SCRAM-SHA-256=[name=a,password=hush\udcff]",
    ],
)
def test_other_texts_are_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(ScramError) as raised:
        parse_add_scram(text)
    assert "hush" not in str(raised.value)


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_any_text_of_a_user_is_read_or_refused(text: str) -> None:
    for wrapped in (text, f"SCRAM-SHA-256=[{text}]", f"SCRAM-SHA-256=[name=a,password={text}]"):
        try:
            found = parse_add_scram(wrapped)
        except ScramError:
            continue
        assert found.user


@given(st.text())
def test_names_are_escaped_and_come_back(name: str) -> None:
    escaped = escape_name(name)
    assert "," not in escaped
    assert unescape_name(escaped) == name


@pytest.mark.parametrize("text", ["=", "a=", "=2", "=2c", "=41", "a=b", "=3d"])
def test_an_equals_sign_that_escapes_nothing_is_refused(text: str) -> None:
    assert unescape_name(text) is None
