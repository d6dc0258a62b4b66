"""How options are given, and which are refused."""

from typing import Any

import pytest

from rookery.client.errors import ConfigurationError
from rookery.client.options import (
    BOOTSTRAP_SERVERS,
    COMMON,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    SASL_PASSWORD,
    Settings,
    read_options,
)
from rookery.client.security import security_of

WHERE = {"bootstrap_servers": "a:1,b:2"}


def read(**keywords: Any) -> Settings:
    return read_options("Admin", COMMON, {**WHERE, **keywords})


def test_keywords_and_kafkas_names_mean_the_same() -> None:
    one = read(request_timeout_ms=7, retry_backoff_ms="20")
    other = read_options(
        "Admin",
        COMMON,
        {},
        {"bootstrap.servers": ["a:1", "b:2"], "request.timeout.ms": "7", "retry.backoff.ms": 20},
    )
    for settings in (one, other):
        assert settings[BOOTSTRAP_SERVERS] == "a:1,b:2"
        assert (settings[REQUEST_TIMEOUT_MS], settings[RETRY_BACKOFF_MS]) == (7, 20)
    assert read(request_timeout_ms=None)[REQUEST_TIMEOUT_MS] == 30_000


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"request_timeout": 7}, "'request_timeout' is not an option; did you mean 'request_timeout_ms'"),
        ({"request.timeout.sm": 7}, "did you mean 'request.timeout.ms'"),
        ({"xyz": 7}, "'xyz' is not an option$"),
        ({"request_timeout_ms": "soon"}, r"request.timeout.ms='soon' cannot be used: a whole number"),
        ({"request_timeout_ms": 0}, "at least|from 1"),
        ({"request_timeout_ms": True}, "cannot be used"),
        ({"request_timeout_ms": 1.5}, "cannot be used"),
        ({"bootstrap_servers": "nowhere"}, "host:port"),
        ({"security_protocol": "TLS"}, "one of PLAINTEXT, SSL"),
        ({"interceptor_classes": "x"}, "not an option here: wrap"),
        ({"request.timeout.ms": 1, "request_timeout_ms": 2}, "given twice"),
    ],
)
def test_what_is_wrong_is_refused_by_name(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        read(**keywords)
    assert caught.value.option
    assert not caught.value.retriable


def test_the_address_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers is needed"):
        read_options("Admin", COMMON, {})


def test_a_secret_is_in_no_message() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(sasl_password=["geheim"])
    assert "geheim" not in str(caught.value)
    assert read(sasl_password="geheim")[SASL_PASSWORD] == "geheim"


def test_sasl_without_a_user_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="sasl_username"):
        security_of("Admin", read(security_protocol="SASL_PLAINTEXT"))
    with pytest.raises(ConfigurationError, match="sasl_oauthbearer_token"):
        security_of("Admin", read(security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER"))
    with pytest.raises(ConfigurationError, match=r"absent\.pem"):
        security_of("Admin", read(security_protocol="SSL", ssl_truststore_location="absent.pem"))
