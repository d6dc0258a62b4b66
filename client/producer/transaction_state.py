"""Where a transactional producer is: which call is allowed now, and what an error means for it.

UNINITIALIZED → READY → OPEN → ENDING → READY
OPEN → LEFT                              delivered, and left open for another to end
OPEN → ABORTABLE → ENDING → READY        a record or an offset failed: only abort is left
any  → FATAL                             another producer has the transactional id, or it is not allowed
"""

from enum import Enum, auto

from rookery.client.errors import AuthenticationError, IllegalStateError, TransactionAbortedError, is_fatal
from rookery.core.errors import (
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    ProducerFencedError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedVersionError,
)

_FATAL = (
    ProducerFencedError,
    TransactionalIdAuthorizationFailedError,
    InvalidProducerIdMappingError,
    UnsupportedVersionError,
    AuthenticationError,
)


class Phase(Enum):
    UNINITIALIZED = auto()
    READY = auto()
    OPEN = auto()
    ENDING = auto()
    LEFT = auto()
    ABORTABLE = auto()
    FATAL = auto()


class TransactionState:
    """Of one transactional id."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.phase = Phase.UNINITIALIZED
        self.error: Exception | None = None
        self.started = False
        """Whether the coordinator knows of the transaction: without that there is nothing to end."""
        self.must_renew = False
        """Whether a new epoch is needed before the next transaction: a batch is lost without trace."""
        self.committing = False
        """Whether the records sent so far are waited for, to be committed."""
        self._number = 0

    def initialized(self) -> None:
        if self.phase is not Phase.FATAL:
            self.phase = Phase.READY
            self.error = None
            self.must_renew = False

    def begin(self) -> None:
        self._check_alive()
        if self.phase is not Phase.READY:
            raise IllegalStateError(
                f"a transaction cannot begin: {self._now()}", "End the one that is open first"
            )
        self.phase = Phase.OPEN
        self.error = None
        self.started = False
        self._number += 1

    def check_open(self, number: int | None = None) -> int:
        """For what belongs into a transaction. Returns its number; whoever waited gives it, since the transaction may
        have ended meanwhile."""
        self._check_alive()
        if number is not None and number != self._number:
            raise TransactionAbortedError("the transaction ended before the record was sent")
        if self.phase is Phase.ABORTABLE:
            raise TransactionAbortedError(
                f"the transaction has failed: {self.error}", "Abort it and begin again"
            )
        if self.phase is not Phase.OPEN:
            raise IllegalStateError(
                "a producer with transactional_id sends within a transaction only",
                "Use `async with producer.transaction()`",
            )
        if self.committing:
            raise IllegalStateError("the transaction is being committed", "Await all that is sent before the commit")
        return self._number

    def interrupted(self) -> None:
        """The call that ends the transaction was cancelled: whether it has ended is not known."""
        if self.phase is Phase.ENDING:
            self.phase = Phase.ABORTABLE
            self.error = TransactionAbortedError("the call that was to end the transaction was cancelled")

    def end(self, commit: bool) -> None:
        """The transaction is about to be committed or aborted."""
        self._check_alive()
        if commit and self.phase is Phase.ABORTABLE:
            raise TransactionAbortedError(
                f"the transaction cannot commit: {self.error}", "Abort it"
            ) from self.error
        if self.phase not in (Phase.OPEN, Phase.ABORTABLE):
            raise IllegalStateError(f"there is no transaction to end: {self._now()}")
        self.phase = Phase.ENDING

    def leave(self) -> None:
        """The transaction is delivered, and somebody else ends it."""
        self.check_open()
        self.phase = Phase.LEFT

    def ended(self) -> None:
        if self.phase is Phase.ENDING:
            self.phase = Phase.READY
            self.started = False

    def failed(self, error: Exception, *, from_coordinator: bool = True) -> Exception:
        """What an error means; returns what to raise. A coordinator that answers with an old epoch has another producer
        under the id; a leader that does so may only have seen the transaction time out."""
        if from_coordinator and isinstance(error, InvalidProducerEpochError):
            error = ProducerFencedError(
                f"{self.transactional_id!r} is used by a newer producer, or timed out: {error}"
            )
        if isinstance(error, _FATAL) or (
            is_fatal(error) and not isinstance(error, InvalidProducerEpochError)
        ):
            self.phase = Phase.FATAL
            self.error = error
        elif self.phase is Phase.OPEN or (self.phase is Phase.ENDING and from_coordinator):
            self.phase = Phase.ABORTABLE
            self.error = error
        return error

    def _check_alive(self) -> None:
        if self.phase is Phase.FATAL and self.error is not None:
            raise self.error

    def _now(self) -> str:
        return f"the producer is {self.phase.name.lower()}"
