"""OAUTHBEARER: tokens that are signed, fresh and meant for us; nothing else, and nothing fetched on the way."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import example, given
from hypothesis import strategies as st
from jwt.algorithms import get_default_algorithms

from rookery.core.security.oauthbearer import (
    KEY_ID_MAX,
    KEY_SET_BYTES_MAX,
    TOKEN_BYTES_MAX,
    Identity,
    KeyRefresh,
    KeySet,
    OAuthBearerClient,
    OAuthBearerServer,
    TokenError,
    TokenRules,
    UnknownKeyError,
    check_token,
)
from rookery.core.security.sasl import Challenge, Done, Failed, SaslError

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
ALGORITHMS = get_default_algorithms()
RULES = TokenRules(audiences=frozenset({"rookery"}), issuer="https://issuer")
CLAIMS = {"sub": "alice", "exp": NOW_S + 60, "iat": NOW_S - 1, "iss": "https://issuer", "aud": "rookery"}


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def jwk(algorithm: str, key: Any, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = ALGORITHMS[algorithm].to_jwk(key.public_key(), as_dict=True)
    return {**made, **more}


JWKS = {
    "keys": [
        jwk("RS256", RSA_KEY, kid="rsa", use="sig"),
        jwk("ES256", EC_KEY, kid="ec", alg="ES256"),
        jwk("EdDSA", ED_KEY, kid="ed"),
        {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"},
        jwk("ES256", OTHER_KEY, kid="for encryption", use="enc"),
        {"kty": "new kind"},
        "nonsense",
    ]
}
KEYS = KeySet.parse(json.dumps(JWKS).encode())


def signed(
    claims: Any = CLAIMS, *, alg: str = "ES256", key: Any = EC_KEY, kid: str | None = "ec", **header: Any
) -> str:
    head = {"alg": alg, **({} if kid is None else {"kid": kid}), **header}
    body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    text = f"{b64(json.dumps(head).encode())}.{b64(body)}"
    return f"{text}.{b64(ALGORITHMS[alg].sign(text.encode(), key))}"


def changed(**claims: Any) -> dict[str, Any]:
    return {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}


# --- tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alg", "key", "kid"),
    [
        ("RS256", RSA_KEY, "rsa"),
        ("PS512", RSA_KEY, "rsa"),
        ("ES256", EC_KEY, "ec"),
        ("EdDSA", ED_KEY, "ed"),
        ("ES256", EC_KEY, None),
    ],
)
def test_a_signed_token_names_its_user(alg: str, key: Any, kid: str | None) -> None:
    token = signed(changed(scope="read write"), alg=alg, key=key, kid=kid)

    assert check_token(token, KEYS, RULES, NOW_MS) == Identity(
        "alice", (NOW_S + 60) * 1000, frozenset({"read", "write"})
    )


def test_claims_and_audience_can_be_lists_and_have_other_names() -> None:
    rules = TokenRules(subject_claim="client", scope_claim="scp")
    token = signed({"client": "bob", "exp": NOW_S + 1.5, "iat": NOW_S, "scp": ["a"]})

    assert check_token(token, KEYS, rules, NOW_MS) == Identity("bob", NOW_MS + 1500, frozenset({"a"}))
    assert check_token(signed(changed(aud=["x", "rookery"])), KEYS, RULES, NOW_MS).user == "alice"


def test_clocks_may_differ_a_little() -> None:
    assert check_token(signed(changed(exp=NOW_S - 29)), KEYS, RULES, NOW_MS).user == "alice"
    assert check_token(signed(changed(iat=NOW_S + 29, nbf=NOW_S + 29)), KEYS, RULES, NOW_MS).user == "alice"


@pytest.mark.parametrize(
    "claims",
    [
        changed(exp=NOW_S - 31),
        changed(exp=NOW_S - 30),
        changed(iat=NOW_S + 31),
        changed(nbf=NOW_S + 31),
        changed(exp=None),
        changed(iat=None),
        changed(exp="1900000000"),
        changed(exp=True),
        changed(exp=-1),
        changed(exp=10**30),
        changed(iss="https://other"),
        changed(iss=None),
        changed(aud="other"),
        changed(aud=["other"]),
        changed(aud=None),
        changed(aud=[["rookery"]]),
        changed(aud={"rookery": 1}),
        changed(sub=None),
        changed(sub=""),
        changed(sub=" "),
        changed(sub=" alice"),
        changed(sub="*"),
        changed(sub="al\nice"),
        changed(sub=7),
        changed(scope=7),
        changed(scope=[7]),
        [],
        b"{",
        b"[" * 30_000,
        b'{"sub":"alice","exp":1e999,"iat":1}',
        b'{"sub":"alice","exp":NaN,"iat":1}',
        b'{"sub":"alice","exp":' + b"9" * 5000 + b',"iat":1}',
        b'{"sub":"alice","sub":"root"}',
    ],
)
@pytest.mark.attack(29, 32)
def test_claims_that_are_refused(claims: Any) -> None:
    with pytest.raises(TokenError):
        check_token(signed(claims), KEYS, RULES, NOW_MS)


@pytest.mark.attack(29)
def test_an_audience_where_none_is_expected_is_refused() -> None:
    with pytest.raises(TokenError):
        check_token(signed(), KEYS, TokenRules(), NOW_MS)
    assert check_token(signed(changed(aud=None)), KEYS, TokenRules(), NOW_MS).user == "alice"


@pytest.mark.attack(29)
def test_a_token_without_a_signature_is_refused() -> None:
    for alg in ("none", "None", "NONE", ""):
        head = b64(json.dumps({"alg": alg}).encode())
        with pytest.raises(TokenError):
            check_token(f"{head}.{b64(json.dumps(CLAIMS).encode())}.", KEYS, RULES, NOW_MS)


@pytest.mark.attack(29)
def test_a_public_key_is_never_a_shared_secret() -> None:
    public = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for key, kid in ((public, "rsa"), (b"secret", "shared")):
        with pytest.raises(TokenError):
            check_token(signed(alg="HS256", key=key, kid=kid), KEYS, RULES, NOW_MS)


@pytest.mark.parametrize("header", ["jku", "jwk", "x5u", "x5c", "crit"])
@pytest.mark.attack(29)
def test_a_token_brings_no_key_of_its_own(header: str) -> None:
    with pytest.raises(TokenError, match=header):
        check_token(signed(**{header: "https://attacker"}), KEYS, RULES, NOW_MS)


def test_keys_that_are_not_known_are_distinguished_from_wrong_signatures() -> None:
    for kid in ("new", "for encryption", "x" * KEY_ID_MAX):
        with pytest.raises(UnknownKeyError) as raised:
            check_token(signed(key=OTHER_KEY, kid=kid), KEYS, RULES, NOW_MS)
        assert raised.value.key_id == kid
    for token in (signed(key=OTHER_KEY), signed(kid="x" * 2048)):
        with pytest.raises(TokenError) as refused:
            check_token(token, KEYS, RULES, NOW_MS)
        assert not isinstance(refused.value, UnknownKeyError)


def test_a_key_serves_its_own_algorithms_only() -> None:
    with pytest.raises(UnknownKeyError):
        check_token(signed(alg="RS256", key=RSA_KEY, kid="ec"), KEYS, RULES, NOW_MS)


def test_every_changed_character_is_noticed() -> None:
    token = signed()
    for place in range(0, len(token) - 1, 7):
        other = "A" if token[place] != "A" else "Q"
        with pytest.raises(TokenError):
            check_token(token[:place] + other + token[place + 1 :], KEYS, RULES, NOW_MS)


@pytest.mark.parametrize(
    ("alg", "key", "kid"),
    [("RS256", RSA_KEY, "rsa"), ("PS256", RSA_KEY, "rsa"), ("ES256", EC_KEY, "ec"), ("EdDSA", ED_KEY, "ed")],
)
def test_signatures_of_any_size_are_refused_as_declared(alg: str, key: Any, kid: str) -> None:
    head, body, _ = signed(alg=alg, key=key, kid=kid).split(".")
    for size in (0, 1, 63, 64, 65, 255, 256, 257, 600):
        for fill in (b"\0", b"\1", b"\xff"):
            with pytest.raises(TokenError, match="signature"):
                check_token(f"{head}.{body}.{b64(fill * size)}", KEYS, RULES, NOW_MS)


@given(
    st.one_of(
        st.text(max_size=80), st.from_regex(r"[A-Za-z0-9_-]{0,30}\.[A-Za-z0-9_-]{0,30}\.[A-Za-z0-9_-]{0,30}")
    )
)
@example("..")
@example("e30.e30.e30")
@example("x" * (TOKEN_BYTES_MAX + 1))
def test_any_text_is_refused_as_declared(token: str) -> None:
    with pytest.raises(TokenError) as raised:
        check_token(token, KEYS, RULES, NOW_MS)
    assert len(token) < 8 or token not in str(raised.value)


@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "jku"]), st.one_of(
    st.none(), st.integers(), st.text(), st.lists(st.integers()), st.just("ES256"), st.just("ec"))))  # fmt: skip
def test_any_header_is_refused_as_declared(header: dict[str, Any]) -> None:
    _, body, signature = signed().split(".")
    with pytest.raises(TokenError):
        check_token(f"{b64(json.dumps(header).encode())}.{body}.{signature}", KEYS, RULES, NOW_MS)


# --- keys -------------------------------------------------------------------------------------------------------


def test_only_public_keys_for_signatures_are_taken() -> None:
    assert [(key.key_id, key.algorithms[0]) for key in KEYS.keys] == [
        ("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA"),
    ]  # fmt: skip


def test_weak_and_broken_keys_are_left_out() -> None:
    weak = {"kty": "RSA", "kid": "weak", "n": b64(((1 << 1023) + 1).to_bytes(128, "big")), "e": "AQAB"}
    broken = [
        {"kty": "RSA", "n": 7},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "Ed25519"},
    ]
    keys = KeySet.parse(json.dumps({"keys": [weak, *broken, JWKS["keys"][1]]}).encode())

    assert [key.key_id for key in keys.keys] == ["ec"]


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[]}', b"[" * 100_000, b'{"keys":[{"kty":"oct","k":"AAAA"}]}',
     b" " * (KEY_SET_BYTES_MAX + 1), json.dumps({"keys": [{}] * 300}).encode(), b"\xff"],
)  # fmt: skip
def test_documents_without_a_key_are_refused(document: bytes) -> None:
    with pytest.raises(TokenError):
        KeySet.parse(document)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["keys", "kty", "crv", "n", "e", "x", "y", "kid", "use", "alg"]), inner
        )
    ),
    max_leaves=12,
)


@given(_JSON)
@example([{"kty": "RSA", "n": "", "e": ""}])
@example([{"kty": "RSA", "n": "AQ", "e": "AQ"}])
@example([{"kty": "EC", "crv": "P-256", "x": None, "y": []}])
@example([{"kty": ["RSA"]}])
def test_any_document_is_read_or_refused(keys: object) -> None:
    with pytest.raises(TokenError):
        KeySet.parse(json.dumps({"keys": keys}).encode())


@pytest.mark.attack(30)
def test_ten_thousand_unknown_keys_cause_one_fetch_a_minute() -> None:
    refresh = KeyRefresh()
    refresh.fetched(0)
    fetches = []
    for each in range(10_000):
        now = each * 30  # five minutes
        if refresh.unknown(f"kid-{each}", now):
            assert refresh.due_ms == now
            fetches.append(now)
            refresh.fetched(now)
    assert fetches == [0, 60_000, 120_000, 180_000, 240_000]


def test_the_same_unknown_key_is_looked_for_once() -> None:
    refresh = KeyRefresh()
    assert refresh.unknown("x", 0)
    assert not refresh.unknown("x", 3_600_000)
    assert not refresh.unknown(None, 3_600_000)
    assert not refresh.unknown("k" * (KEY_ID_MAX + 1), 3_600_000)
    for each in range(KeyRefresh.REMEMBERED_MAX):
        assert refresh.unknown(str(each), (each + 1) * 60_000)
    assert refresh.unknown("x", 3_600_000)


def test_failed_fetches_are_tried_again_ever_more_slowly_until_one_succeeds() -> None:
    refresh = KeyRefresh(refresh_ms=1000, retry_ms=100, retry_max_ms=1000)
    waits = []
    for _ in range(6):
        refresh.failed(0)
        waits.append(refresh.due_ms)
    assert waits == [100, 200, 400, 800, 1000, 1000]
    refresh.fetched(5)
    assert refresh.due_ms == 1005
    refresh.failed(1005)
    assert refresh.due_ms == 1105


# --- messages ---------------------------------------------------------------------------------------------------


def test_client_and_server_agree() -> None:
    client, server = OAuthBearerClient(signed(), {"logicalCluster": "lkc 1"}), OAuthBearerServer(KEYS, RULES)

    done = server.step(client.first(), NOW_MS)

    assert done == Done("alice", b"", (NOW_S + 60) * 1000)
    assert client.step(b"") is None


def test_a_bad_token_is_answered_by_a_status_and_then_refused() -> None:
    client, server = OAuthBearerClient(signed(kid="new")), OAuthBearerServer(KEYS, RULES)

    status = server.step(client.first(), NOW_MS)
    assert isinstance(status, Challenge)
    assert json.loads(status.message) == {"status": "invalid_token"}
    assert server.unknown_key is not None
    assert server.unknown_key.key_id == "new"
    answer = client.step(status.message)
    assert answer == b"\x01"
    assert isinstance(server.step(answer, NOW_MS), Failed)
    assert isinstance(server.step(OAuthBearerClient(signed()).first(), NOW_MS), Failed)
    with pytest.raises(SaslError):
        client.step(b"")


def test_the_authorization_id_is_absent_or_the_user() -> None:
    message = OAuthBearerClient(signed()).first()

    assert isinstance(OAuthBearerServer(KEYS, RULES).step(b"n,a=alice," + message[3:], NOW_MS), Done)
    assert isinstance(OAuthBearerServer(KEYS, RULES).step(b"n,a=bob," + message[3:], NOW_MS), Failed)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01k1=v\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01k=\x00\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"p=tls,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a==,\x01auth=Bearer a.b.c\x01\x01",
        b"n,b=x,\x01auth=Bearer a.b.c\x01\x01",
        b"\xff",
        b"n,,\x01auth=Bearer " + b"a" * (2 * TOKEN_BYTES_MAX) + b"\x01\x01",
    ],
)
def test_messages_that_are_refused_at_once(message: bytes) -> None:
    assert isinstance(OAuthBearerServer(KEYS, RULES).step(message, NOW_MS), Failed)


@given(
    st.lists(st.sampled_from([b"n,,", b"\x01", b"auth=", b"Bearer ", b"a.b.c", b"k=v", b",", b"a=", b"\xff"]))
)
def test_any_message_gives_an_outcome(pieces: list[bytes]) -> None:
    outcome = OAuthBearerServer(KEYS, RULES).step(b"".join(pieces), NOW_MS)
    assert isinstance(outcome, Challenge | Failed)


@pytest.mark.parametrize(
    ("token", "extensions"),
    [("a b", {}), ("", {}), ("a.b.c", {"auth": "x"}), ("a.b.c", {"k1": "x"}), ("a.b.c", {"k": "\x01"})],
)
def test_a_client_sends_nothing_broken(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(SaslError):
        OAuthBearerClient(token, extensions)


def test_tokens_are_not_shown() -> None:
    token = signed(kid="new")
    server = OAuthBearerServer(KEYS, RULES)
    server.step(OAuthBearerClient(token).first(), NOW_MS)
    outcome = server.step(b"\x01", NOW_MS)

    for value in (server, outcome, OAuthBearerClient(token), KEYS):
        assert token not in repr(value) + str(value)
