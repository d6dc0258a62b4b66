"""A failure of the cluster as a person can act on it: what, where, why, what to do next, and an exit code."""

import argparse
import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

from rookery.client.admin import Admin
from rookery.client.cli.nearest import nearest, sentence
from rookery.client.errors import (
    AuthenticationError,
    CliError,
    DeniedError,
    KafkaTimeoutError,
    NoBrokersError,
    NotFoundError,
    UnhealthyError,
)
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.net.cluster import BootstrapError
from rookery.core.net.connection import ConnectionLostError

DENIED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }
)
WHAT_THERE_IS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "topic list",
    ErrorCode.GROUP_ID_NOT_FOUND: "group list",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "transaction list",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "node list",
    ErrorCode.RESOURCE_NOT_FOUND: "user list",
}
"""Where there is no such thing: the command that lists them."""
WRONG_OPTION = frozenset({ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST})
RUNNING = "Is the cluster running? `rookery up` starts one; a listener with TLS or SASL needs --command-config"
WHO = "Check mechanism, user and password in the file that --command-config names"
NAMED_TOPIC = re.compile(r"topic '([^']+)'")
ASK_MS = 5_000


def explained(error: Exception, arguments: argparse.Namespace, options: Mapping[str, Any] | None = None) -> Exception:
    """The failure as it is shown to a person; a bug stays what it is. `options` are those of a client that may be
    asked what there is."""
    match error:
        case BootstrapError() | ConnectionLostError() | NoBrokersError():
            return CliError(f"{_plain(error)}. {RUNNING}")
        case AuthenticationError() | KafkaError(code=ErrorCode.SASL_AUTHENTICATION_FAILED):
            return DeniedError(f"{_plain(error)}. {WHO}")
        case KafkaTimeoutError() | KafkaError(code=ErrorCode.REQUEST_TIMED_OUT):
            return UnhealthyError(f"{error}. `rookery doctor` says what is wrong")
        case KafkaError(code=code) if code in WHAT_THERE_IS:
            hint = _topic_meant(str(error), options) if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ""
            return NotFoundError(sentence(str(error), hint, f"`rookery {WHAT_THERE_IS[code]}` shows what there is"))
        case KafkaError(code=code) if code in DENIED:
            return DeniedError(f"{error}. `rookery acl list` shows what is allowed, --command-config says who you are")
        case KafkaError(code=code) if code in WRONG_OPTION:
            return CliError(f"{error}{_option_meant(arguments)}")
        case KafkaError():
            return CliError(str(error))
    return error


def _plain(error: Exception) -> str:
    """Without the advice for programs: their options have other names."""
    hint = getattr(error, "hint", "")
    return str(error).removesuffix(f". {hint}") if hint else str(error)


def _topic_meant(complaint: str, options: Mapping[str, Any] | None) -> str:
    """Asks the cluster once more; whatever comes of that, the failure has been said."""
    named = NAMED_TOPIC.search(complaint)
    if named is None or options is None:
        return ""

    async def names() -> list[str]:
        async with Admin({**options, "default.api.timeout.ms": ASK_MS}) as admin:
            return await admin.list_topics()

    try:
        there = asyncio.run(names())
    except (KafkaError, BootstrapError, ConnectionLostError, OSError):
        return ""
    return "" if named[1] in there else nearest(named[1], there)


def _option_meant(arguments: argparse.Namespace) -> str:
    """The option that comes nearest to the first unknown one among the arguments, if that is what was wrong."""
    given = [
        str(word).partition("=")[0]
        for name in ("assignment", "option", "config", "unset")
        for word in _list(getattr(arguments, name, None))
    ]
    options = OPTIONS.get(getattr(arguments, "kind", "topic"))
    known = options() if options is not None and given else []
    return next((nearest(word, known) for word in given if word not in known), "")


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _of_topics() -> list[str]:
    from rookery.core.config.topic import TABLE

    return TABLE.names()


def _of_brokers() -> list[str]:
    from rookery.core.config import ignored, node

    return [*node.TABLE.names(), *ignored.TABLE.names()]


def _of_groups() -> list[str]:
    from rookery.core.config.consumer_groups import GROUP_TABLE

    return GROUP_TABLE.names()


OPTIONS: Mapping[str, Callable[[], list[str]]] = {"topic": _of_topics, "broker": _of_brokers, "group": _of_groups}
"""By what is configured: its options. Loaded only after a failure: they take long to load."""
