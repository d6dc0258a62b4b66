"""Settings about authorization: accepted where they promise nothing, refused where they promise protection."""

import pytest

from rookery.broker.node.settings import KNOWN_AUTHORIZERS, check_authorizer
from rookery.core.config.loading import load
from rookery.core.config.options import ConfigError, Settings


def settings(**keys: str) -> Settings:
    return load([("file", {key.replace("_", "."): value for key, value in keys.items()})]).settings


def test_nothing_is_said_without_an_authorizer() -> None:
    assert check_authorizer(settings()) == ()


@pytest.mark.row(147)
@pytest.mark.parametrize("name", KNOWN_AUTHORIZERS)
def test_kafkas_authorizers_are_accepted_while_everybody_is_allowed(name: str) -> None:
    (note,) = check_authorizer(settings(authorizer_class_name=name, allow_everyone_if_no_acl_found="true"))
    assert "everybody may do everything" in note


@pytest.mark.row(147)
@pytest.mark.parametrize("flag", [{}, {"allow_everyone_if_no_acl_found": "false"}])
def test_asking_for_protection_that_is_not_there_refuses_to_start(flag: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="ACLs, and they are not supported yet"):
        check_authorizer(settings(authorizer_class_name=KNOWN_AUTHORIZERS[0], **flag))


def test_an_authorizer_of_ones_own_is_refused() -> None:
    with pytest.raises(ConfigError, match="StandardAuthorizer"):
        check_authorizer(settings(authorizer_class_name="com.example.Mine", allow_everyone_if_no_acl_found="true"))
