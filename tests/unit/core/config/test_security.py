"""Options of security: what is not understood stops the start, and listeners have options of their own."""

import pytest

from rookery.core.config import security
from rookery.core.config.loading import load, read_environment
from rookery.core.config.options import ConfigError, Settings
from rookery.core.config.properties import properties_text, read_properties
from rookery.core.config.security import of_listener, own_of_listener, ssl_texts


def loaded(**keys: str) -> Settings:
    return load([("file", {key.replace("__", "-").replace("_", "."): value for key, value in keys.items()})]).settings


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("ssl.keystore.locaton", "correct or remove"),
        ("sasl.kerberos.service.name", "GSSAPI"),
        ("listener.name.external.ssl.provider", "OpenSSL"),
        ("listener.name.external.sasl.nonsense", "correct or remove"),
        ("listener.security.protocols.map", "correct or remove"),
        ("security.providers", "no class is loaded"),
        ("authorizer.nonsense", "authorizer.class.name"),
        ("super.user", "correct or remove"),
        ("principal.mapper", "correct or remove"),
        ("SSL.client.auth", "correct or remove"),
        ("rookery.http.tokn", "correct or remove"),
        ("delegation.token.secret.key", "delegation tokens are not supported"),
    ],
)
def test_unknown_keys_of_security_stop_the_start_and_show_no_value(key: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy) as caught:
        load([("file", {key: "s3cret"})])
    assert caught.value.key == key
    assert "s3cret" not in str(caught.value)


@pytest.mark.attack(61)
def test_the_text_of_settings_shows_no_secret() -> None:
    keys = {"ssl.key.password": "s3cret", "listener.name.external.ssl.keystore.password": "s3cret"}
    assert "s3cret" not in repr(load([("file", keys)]))


def test_other_unknown_keys_are_warned_of() -> None:
    assert "is not an option" in load([("file", {"nonsense": "1"})]).warnings[0]


def test_the_key_of_a_listener_wins_and_that_of_a_mechanism_wins_over_it() -> None:
    settings = load(
        [
            (
                "file",
                {
                    "ssl.keystore.location": "/all.pem",
                    "listener.name.external.ssl.keystore.location": "/external.pem",
                    "connections.max.reauth.ms": "1",
                    "listener.name.external.connections.max.reauth.ms": "2",
                    "listener.name.external.scram-sha-256.connections.max.reauth.ms": "3",
                },
            )
        ]
    ).settings
    assert ssl_texts(settings, "EXTERNAL")["ssl.keystore.location"] == "/external.pem"
    assert ssl_texts(settings, "INTERNAL")["ssl.keystore.location"] == "/all.pem"
    reauth = security.CONNECTIONS_MAX_REAUTH_MS
    assert of_listener(settings, reauth, "EXTERNAL", "SCRAM-SHA-256") == 3
    assert of_listener(settings, reauth, "EXTERNAL", "PLAIN") == 2
    assert of_listener(settings, reauth, "INTERNAL", "PLAIN") == 1
    assert own_of_listener(settings, security.SSL_CLIENT_AUTH, "EXTERNAL") is None


def test_a_wrong_value_of_a_listener_is_named_by_its_whole_key() -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.external\.ssl\.client\.auth='maybe'"):
        load([("file", {"listener.name.external.ssl.client.auth": "maybe"})])


def test_properties_are_read_as_java_reads_them() -> None:
    text = "a=1\nb : two\nc three words \n! no\n# no\nd=one \\\n   line\ne=\\u00e4\\t\\\\\\n.\n f=\\ x\ng=\n"
    assert read_properties(text) == {
        "a": "1",
        "b": "two",
        "c": "three words ",
        "d": "one line",
        "e": "ä\t\\\n.",
        "f": " x",
        "g": "",
    }


def test_what_is_written_as_properties_is_read_again() -> None:
    values = {"a": " leading", "b": "back\\slash\nand=line: #!", "c": "", "d": "ends with blank "}
    assert read_properties(properties_text(values)) == values


def test_a_line_that_is_no_pair_does_not_show_itself() -> None:
    with pytest.raises(ConfigError, match="line 2") as caught:
        read_properties("a=1\npassword\n")
    assert "password" not in str(caught.value)


def test_kafka_opts_may_name_a_jaas_file() -> None:
    values, notes = read_environment({"KAFKA_OPTS": "-Xmx1g -Djava.security.auth.login.config=/etc/jaas.conf"})
    assert values == {"rookery.jaas.file": "/etc/jaas.conf"}
    assert notes == []
    assert "ignored" in read_environment({"KAFKA_OPTS": "-Xmx1g"})[1][0]
