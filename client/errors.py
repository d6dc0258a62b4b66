"""What the client and the command line raise: what, where, why, and what to do.

Errors that a broker answers are those of `core.errors`, one class for each code of the protocol. What the client finds
by itself is a `ClientError`. All of them are a `KafkaError` and say by `retriable` whether the same call can succeed
later and by `fatal` whether the client must be replaced.
"""

from collections.abc import Mapping
from typing import ClassVar

from rookery.core.errors import (
    ClusterAuthorizationFailedError,
    InvalidProducerEpochError,
    SaslAuthenticationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from rookery.core.errors import (
    KafkaError as KafkaError,
)
from rookery.core.errors import (
    ProducerFencedError as ProducerFencedError,
)

# --- the command line ---------------------------------------------------------------------------------------


class CliError(Exception):
    """A failure explained to a person; `exit_code` is its kind, for scripts."""

    exit_code = 1


class UsageError(CliError):
    """The arguments contradict each other."""

    exit_code = 2


class UnhealthyError(CliError):
    """The cluster did not become what was waited for."""

    exit_code = 3


class NotFoundError(CliError):
    """There is no such thing."""

    exit_code = 4


class DeniedError(CliError):
    """The cluster does not allow it."""

    exit_code = 5


# --- the client ---------------------------------------------------------------------------------------------


class ClientError(KafkaError):
    """Raised by the client itself; has no code of the protocol."""

    passes: ClassVar[bool] = False
    ends_client: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}. {hint}" if hint else message)
        self.hint = hint

    @property
    def retriable(self) -> bool:
        return self.passes

    @property
    def fatal(self) -> bool:
        return self.ends_client

    def __str__(self) -> str:
        return str(self.args[0])


class RetriableError(ClientError):
    """The same call can succeed later."""

    passes = True


class FatalError(ClientError):
    """This client can do nothing more: close it and make another one."""

    ends_client = True


class ConfigurationError(ClientError, ValueError):
    """An option is unknown, has a wrong value, or contradicts another; `option` is its name."""

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(message)
        self.option = option


class AuthenticationError(FatalError):
    """The broker refuses the credentials, or the client does not trust the broker."""


class NoBrokersError(RetriableError):
    """No node of the cluster could be reached; `tried` has the reason of each address."""

    def __init__(self, tried: Mapping[str, str]) -> None:
        reasons = "; ".join(f"{address}: {reason}" for address, reason in tried.items())
        super().__init__(
            f"no node could be reached; {reasons}",
            "Check bootstrap_servers, that the nodes run, and that security_protocol is that of the listener",
        )
        self.tried = dict(tried)


class KafkaTimeoutError(RetriableError, TimeoutError):
    """The time for a call is over."""


class BufferFullError(KafkaTimeoutError):
    """There was no room in buffer.memory for max.block.ms."""


class DeliveryTimeoutError(KafkaTimeoutError):
    """A record was not acknowledged within delivery.timeout.ms. Whether it is stored is not known if it was sent."""


class ClosedError(ClientError):
    """The client is closed."""


class IllegalStateError(ClientError):
    """The call is not allowed now."""


class ForkedError(FatalError):
    """The client was made in another process: connections cannot be shared over a fork."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"this {what} was opened in the parent process", "Open a new one in each process, after the fork"
        )


class RecordTooLargeError(ClientError):
    """The record exceeds max.request.size or buffer.memory; it was not sent."""


class SerializationError(ClientError):
    """A serializer or deserializer failed; `__cause__` has its error."""


class TransactionAbortedError(ClientError):
    """The record was not delivered because its transaction was aborted."""


class CommitFailedError(ClientError):
    """The group went on without this member; its offsets were not committed."""


class ConcurrentUseError(ClientError):
    """Two threads or tasks used a client at once that is for one at a time."""


class WakeupError(ClientError):
    """`wakeup()` ended the call."""


class NoOffsetError(ClientError):
    """A partition has no committed offset, or one out of range, and auto.offset.reset is none."""


_FATAL = (
    ProducerFencedError,
    InvalidProducerEpochError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    ClusterAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)


def is_fatal(error: BaseException) -> bool:
    """Whether the client that raised the error must be replaced."""
    return error.fatal if isinstance(error, ClientError) else isinstance(error, _FATAL)
