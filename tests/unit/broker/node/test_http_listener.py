"""The HTTP listener by its options: nothing that was asked for is left out."""

from pathlib import Path

import pytest

from rookery.broker.node.http_listener import http_server, http_tls
from rookery.core.config.loading import load
from rookery.core.config.options import ConfigError, Settings
from tests.certificates import Authority


def settings(**keys: str) -> Settings:
    return load([("file", {f"rookery.http.{key.replace('_', '.')}": value for key, value in keys.items()})]).settings


@pytest.mark.parametrize("key", ["token", "ssl_keystore_location"])
def test_protection_of_nothing_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=r"set rookery\.http\.listener") as refused:
        http_tls(settings(**{key: "a secret"}))
    assert "a secret" not in str(refused.value)


def test_a_certificate_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent"):
        http_tls(settings(listener="127.0.0.1:0", ssl_keystore_location=str(tmp_path / "absent")))


def test_with_a_certificate_it_is_https(tmp_path: Path) -> None:
    store = Authority(tmp_path).issue("http", "127.0.0.1")
    tls = http_tls(settings(listener="127.0.0.1:0", ssl_keystore_location=str(store)))
    assert tls is not None
    assert tls.listener == "HTTP"


def test_without_options_it_is_plain_or_not_there() -> None:
    assert http_tls(settings(listener="127.0.0.1:0")) is None
    assert http_server(settings(), {}, None) is None
