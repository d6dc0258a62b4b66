"""Logins of Kafka's own modules are read; all others are refused with the reason and without their secrets."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.core.security.jaas import (
    KERBEROS_MODULE,
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    TEXT_MAX,
    JaasError,
    Login,
    check_module,
    oauthbearer_login,
    parse,
    parse_file,
    plain_login,
    scram_login,
)
from rookery.core.security.scram import ScramMechanism

SHA512 = ScramMechanism.SCRAM_SHA_512


def test_a_brokers_plain_login() -> None:
    login = plain_login(
        parse(f"""{PLAIN_MODULE} required
            username="admin" password="a;d=m{{}}in"   // the broker's own
            user_admin="a;d=m{{}}in" /* and
            others */ user_alice='it is "quoted"' "user_b c"="x";""")
    )
    assert (login.username, login.password) == ("admin", "a;d=m{}in")
    assert login.users == {"admin": "a;d=m{}in", "alice": 'it is "quoted"', "b c": "x"}


def test_quotes_are_optional_and_escapes_are_javas() -> None:
    login = parse(rf'{SCRAM_MODULE} Required username=alice-1.x password="a\"b\\c\tn\101\7\q";')

    assert login.options == {"username": "alice-1.x", "password": 'a"b\\c\tnA\7q'}
    assert scram_login(login, SHA512).username == "alice-1.x"


def test_an_oauthbearer_login() -> None:
    login = oauthbearer_login(
        parse(
            f'{OAUTHBEARER_MODULE} required clientId="c" clientSecret="s" scope=x extension_logicalCluster="l";'
        )
    )
    assert (login.client_id, login.client_secret, login.scope) == ("c", "s", "x")
    assert login.extensions == {"logicalCluster": "l"}


def test_a_broker_needs_no_options_for_scram_and_oauthbearer() -> None:
    assert scram_login(parse(f"{SCRAM_MODULE} required;"), SHA512).username is None
    assert oauthbearer_login(parse(f"{OAUTHBEARER_MODULE} required;")).client_id is None


def test_a_file_holds_contexts() -> None:
    contexts = parse_file(
        f"""
        KafkaServer {{ {PLAIN_MODULE} required user_a="x"; }};
        internal.KafkaServer {{
            {SCRAM_MODULE} required
            username="broker" password="p";
        }};
        """
    )
    assert set(contexts) == {"KafkaServer", "internal.KafkaServer"}
    assert plain_login(contexts["KafkaServer"]).users == {"a": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  // nothing\n",
        PLAIN_MODULE,
        f"{PLAIN_MODULE} required",
        f"{PLAIN_MODULE} perhaps;",
        f'{PLAIN_MODULE} required username="hush"',
        f"{PLAIN_MODULE} required username;",
        f"{PLAIN_MODULE} required password=12hush;",
        f"{PLAIN_MODULE} required password=hush=hush;",
        f'{PLAIN_MODULE} required password="hush;',
        f'{PLAIN_MODULE} required password="hu\nsh";',
        f'{PLAIN_MODULE} required password="hush" password="x";',
        f"{PLAIN_MODULE} required password=/hush;",
        f"{PLAIN_MODULE} required; /* hush",
        f"{PLAIN_MODULE} required; {PLAIN_MODULE} required;",
        f"{PLAIN_MODULE} required;;",
        "x" * (TEXT_MAX + 1),
    ],
)
def test_broken_logins_are_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(JaasError) as raised:
        parse(text)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "A {",
        "A { };",
        "A { x required; }",
        "A { x required; y required; };",
        "A { x required; }; A { x required; };",
    ],
)
def test_broken_files_are_refused(text: str) -> None:
    with pytest.raises(JaasError):
        parse_file(text)


@pytest.mark.parametrize(
    ("module", "mechanism", "reason"),
    [
        (KERBEROS_MODULE, "GSSAPI", "GSSAPI"),
        (KERBEROS_MODULE, "PLAIN", "GSSAPI"),
        ("com.sun.security.auth.module.JndiLoginModule", "PLAIN", "not loaded"),
        (SCRAM_MODULE, "PLAIN", "PlainLoginModule"),
        (PLAIN_MODULE, "SCRAM-SHA-256", "ScramLoginModule"),
        (PLAIN_MODULE, "CRAM-MD5", "OAUTHBEARER"),
    ],
)
def test_other_modules_are_refused_with_the_reason(module: str, mechanism: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason):
        check_module(Login(module, {}), mechanism)


@pytest.mark.parametrize(
    "options",
    [
        {"username": "a"},
        {"password": "hush"},
        {"username": "", "password": "hush"},
        {"user_": "hush"},
        {"user_*": "hush"},
        {"user_a": ""},
        {"hush": "x"},
        {"serviceName": "hush"},
    ],
)
def test_options_of_plain_that_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(JaasError) as raised:
        plain_login(Login(PLAIN_MODULE, options))
    assert "hush" not in str(raised.value)


def test_tokens_without_a_signature_and_delegation_tokens_are_refused() -> None:
    with pytest.raises(JaasError, match="signature"):
        oauthbearer_login(Login(OAUTHBEARER_MODULE, {"unsecuredLoginStringClaim_sub": "alice"}))
    with pytest.raises(JaasError, match="delegation"):
        scram_login(Login(SCRAM_MODULE, {"tokenauth": "true", "username": "a", "password": "b"}), SHA512)
    assert scram_login(Login(SCRAM_MODULE, {"tokenauth": "false"}), SHA512).password is None


@pytest.mark.attack(61)
def test_secrets_are_not_shown() -> None:
    plain = parse(f'{PLAIN_MODULE} required username="a" password="hush" user_b="hush";')
    scram = Login(SCRAM_MODULE, {"username": "a", "password": "hush"})
    oauth = Login(OAUTHBEARER_MODULE, {"clientId": "c", "clientSecret": "hush", "extension_x": "hush"})
    for value in (
        plain,
        plain_login(plain),
        scram,
        scram_login(scram, SHA512),
        oauth,
        oauthbearer_login(oauth),
    ):
        assert "hush" not in repr(value) + str(value)


_PIECES = [
    "a.B",
    " required",
    "\n",
    "=",
    ";",
    "{",
    "}",
    '"',
    "'",
    "\\",
    "/",
    "//",
    "/*",
    "*/",
    "é",
    "1",
    "-",
    "\0",
]


@given(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=4)), max_size=30))
@example(["/*"] * 1000)
@example(['"\\'] * 1000)
def test_any_text_is_read_or_refused(pieces: list[str]) -> None:
    text = "".join(pieces)
    for read in (parse, parse_file):
        try:
            read(text)
        except JaasError:
            continue


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=12), max_size=5))
def test_whatever_is_quoted_comes_back(options: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
        return f'"{text}"'

    text = " ".join(f"{quoted(key)}={quoted(value)}" for key, value in options.items())
    assert parse(f"m.M required {text};").options == options
