"""Options with passwords and keys, and users with salts: no answer, error or log line shows one."""

import logging
from typing import Any

import pytest

from rookery.core.config.node import TABLE
from rookery.core.config.security import MECHANISMS, listener_key
from rookery.core.errors import ErrorCode as E
from tests.unit.broker.authorization.scene import Caller, bare, codes

SECRET = "s3cret-of-the-broker"
LISTENER = "listener.name.sasl_ssl."
OWN = [option.name for option in TABLE if option.sensitive]
PREFIXED = [LISTENER + name for name in OWN if listener_key(LISTENER + name) is not None]
BY_MECHANISM = [f"{LISTENER}{each.lower()}.sasl.jaas.config" for each in MECHANISMS]
SENSITIVE = [*OWN, *PREFIXED, *BY_MECHANISM]
BROKER, SET = 4, 0


def words(answer: Any) -> str:
    return repr(answer)


@pytest.mark.attack(54)
async def test_options_with_secrets_are_described_without_them() -> None:
    assert len(OWN) >= 10
    async with bare(**dict.fromkeys(SENSITIVE, SECRET)) as scene:
        for keys in (None, SENSITIVE):
            asked = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": keys}
            answer = await scene.admin.ask(
                "DescribeConfigs", 4, resources=[asked], include_synonyms=True, include_documentation=True
            )
            found = {each.name: each for each in answer.results[0].configs}
            assert set(SENSITIVE) <= found.keys()
            assert [name for name in SENSITIVE if found[name].value is not None or not found[name].is_sensitive] == []
            assert SECRET not in words(answer)


async def _alter(caller: Caller, name: str, value: str, version: int = 1) -> Any:
    config = {"name": name, "value": value, "config_operation": SET}
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": [config]}
    return await caller.ask("IncrementalAlterConfigs", version, resources=[resource], validate_only=False)


@pytest.mark.attack(55)
async def test_secrets_are_not_taken_at_run_time_and_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    """They would stand in the metadata log in clear."""
    async with bare() as scene:
        with caplog.at_level(logging.DEBUG, "rookery"):
            for name in (*SENSITIVE, f"{LISTENER}ssl.keystore.pasword", "ssl.nonsense"):
                answer = await _alter(scene.admin, name, SECRET)
                assert codes(answer) <= {E.INVALID_CONFIG, E.INVALID_REQUEST}, name
                assert codes(answer), name
                assert SECRET not in words(answer)
            upsertion = {
                "name": "ann", "mechanism": 1, "iterations": 4096, "salt": b"the-salt-of-ann",
                "salted_password": b"salted-password-of-ann".ljust(32, b"."),
            }  # fmt: skip
            answer = await scene.admin.ask("AlterUserScramCredentials", 0, deletions=[], upsertions=[upsertion])
            assert codes(answer) == set()
            described = await scene.admin.ask("DescribeUserScramCredentials", 0, users=None)
            assert "ann" in words(described)
        shown = words(described) + "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
        for secret in (SECRET, "the-salt-of-ann", b"the-salt-of-ann".hex(), "salted-password-of-ann"):
            assert secret not in shown


@pytest.mark.attack(24)
@pytest.mark.parametrize("iterations", [-1, 0, 1, 4095, 16385])
async def test_too_few_or_too_many_iterations_are_refused(iterations: int) -> None:
    async with bare() as scene:
        upsertion = {
            "name": "ann", "mechanism": 1, "iterations": iterations, "salt": b"s", "salted_password": bytes(32),
        }  # fmt: skip
        answer = await scene.admin.ask("AlterUserScramCredentials", 0, deletions=[], upsertions=[upsertion])
        assert codes(answer) == {E.UNACCEPTABLE_CREDENTIAL}
        assert not scene.broker.cluster.image.credentials
