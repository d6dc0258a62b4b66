"""What a failure of the cluster is to a person and to a script: the words, and the exit code."""

from argparse import Namespace

import pytest

from rookery.client.cli.failures import WHAT_THERE_IS, explained
from rookery.client.errors import AuthenticationError, CliError, KafkaTimeoutError, NoBrokersError
from rookery.core.errors import ErrorCode, error_for

FAILED, UNHEALTHY, NOT_FOUND, DENIED = 1, 3, 4, 5


@pytest.mark.parametrize(
    ("error", "code", "todo"),
    [
        (NoBrokersError({"h:1": "refused"}), FAILED, "h:1: refused. Is the cluster running? `rookery up` starts one"),
        (KafkaTimeoutError("no answer within 5 s"), UNHEALTHY, "`rookery doctor` says what is wrong"),
        (error_for(ErrorCode.REQUEST_TIMED_OUT, "move"), UNHEALTHY, "`rookery doctor` says what is wrong"),
        (AuthenticationError("refused", "Check sasl_username"), DENIED, "refused. Check mechanism, user and password"),
        (error_for(ErrorCode.SASL_AUTHENTICATION_FAILED, "refused"), DENIED, "refused. Check mechanism, user and"),
        (error_for(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), DENIED, "`rookery acl list` shows what is allowed"),
        (error_for(ErrorCode.INVALID_PARTITIONS, "topic 't': 0 partitions"), FAILED, "topic 't': 0 partitions"),
        *((error_for(code), NOT_FOUND, f"`rookery {verb}` shows what") for code, verb in WHAT_THERE_IS.items()),
    ],
)
def test_exit_codes_and_what_to_do(error: Exception, code: int, todo: str) -> None:
    found = explained(error, Namespace())
    assert isinstance(found, CliError)
    assert (found.exit_code, todo in str(found)) == (code, True), str(found)


def test_a_bug_stays_what_it_is() -> None:
    bug = ZeroDivisionError()
    assert explained(bug, Namespace()) is bug


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (Namespace(kind="topic", assignment=["retention.ms=1", "segment.byts=5"]), "segment.bytes"),
        (Namespace(config=["clenup.policy=compact"]), "cleanup.policy"),
        (Namespace(assignment=[], unset=["retnetion.ms"]), "retention.ms"),
        (Namespace(kind="broker", option=["num.io.thread"]), "num.io.threads"),
        (Namespace(kind="group", assignment=["consumer.sesion.timeout.ms=1"]), "consumer.session.timeout.ms"),
    ],
)
def test_the_option_that_was_meant(arguments: Namespace, meant: str) -> None:
    refused = error_for(ErrorCode.INVALID_CONFIG, "there is no such option")
    assert str(explained(refused, arguments)).endswith(f"; did you mean {meant}?")


@pytest.mark.parametrize(
    "arguments", [Namespace(), Namespace(kind="client-metrics", option=["x"]), Namespace(assignment=["retention.ms=x"])]
)
def test_no_option_is_suggested_where_none_was_wrong(arguments: Namespace) -> None:
    assert str(explained(error_for(ErrorCode.INVALID_CONFIG, "no"), arguments)) == "INVALID_CONFIG: no"
