"""The calls of a producer that make transactions."""

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from rookery.client.errors import IllegalStateError, TransactionAbortedError
from rookery.client.producer.sender import Sender
from rookery.client.producer.transaction_state import Phase, TransactionState
from rookery.client.producer.transactions import LeftOpen, Offsets, Transactions
from rookery.client.session import explained
from rookery.client.types import GroupMetadata
from rookery.core.errors import KafkaError
from rookery.core.net.cluster import BootstrapError
from rookery.core.net.connection import ConnectionLostError


class TransactionCalls(ABC):
    """Begin, commit and abort. `_state` is None for a producer without a transactional id."""

    _state: TransactionState | None
    _transactions: Transactions | None
    _ending: asyncio.Lock

    @abstractmethod
    def _running(self) -> Sender:
        """The sender of a producer that may be used; otherwise raises why not."""

    @abstractmethod
    async def _settle_all(self, sender: Sender) -> None:
        """Wait until all records sent before are settled."""

    @property
    def transaction_state(self) -> TransactionState | None:
        return self._state

    async def begin_transaction(self) -> None:
        sender = self._running()
        state, transactions = self._transactional()
        if state.must_renew:
            await self._coordinated(transactions.renew())
            self._renumber(sender)
            state.initialized()
        state.begin()
        sender.accumulator.forgive()
        if transactions.version == 1:
            sender.accumulator.added = set()

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        """Commit offsets of a consumer's group with the transaction. `group` is the consumer's `group_metadata()`; a
        name alone is for groups without members."""
        self._running()
        state, transactions = self._transactional()
        state.check_open()
        if offsets:
            metadata = GroupMetadata(group) if isinstance(group, str) else group
            await self._coordinated(transactions.commit_offsets(offsets, metadata))

    async def commit_transaction(self) -> None:
        """Deliver all records of the transaction, then make them visible. If that cannot be, it raises, and the
        transaction must be aborted."""
        sender = self._running()
        state, transactions = self._transactional()
        async with self._ending:
            await self._deliver_all(sender, state)
            state.end(commit=True)
            if self._wrote(sender, state):
                await self._coordinated(transactions.end(commit=True))
            self._ended(sender, state)

    async def _deliver_all(self, sender: Sender, state: TransactionState) -> None:
        if state.phase is not Phase.OPEN:
            return
        state.committing = True
        try:
            await self._settle_all(sender)
        finally:
            state.committing = False
        failed = sender.accumulator.failed
        if failed is not None:
            state.failed(failed, from_coordinator=False)

    async def abort_transaction(self) -> None:
        """Drop the records that were not sent, and hide those that were."""
        sender = self._running()
        async with self._ending:
            await self._abort(sender)

    async def _abort(self, sender: Sender) -> None:
        state, transactions = self._transactional()
        state.end(commit=False)
        sender.accumulator.abandon(
            TransactionAbortedError("the transaction was aborted before the record was sent")
        )
        await self._coordinated(self._settle_all(sender))
        if state.phase is Phase.ABORTABLE:  # a partition could not be added: it need not be any more
            state.end(commit=False)
        if sender.accumulator.failed is not None and transactions.version == 1:
            state.must_renew = self._wrote(sender, state)
        if self._wrote(sender, state):
            await self._coordinated(transactions.end(commit=False))
        self._ended(sender, state)

    def _wrote(self, sender: Sender, state: TransactionState) -> bool:
        """Whether the coordinator may know of the transaction."""
        return state.started or sender.accumulator.wrote

    def _ended(self, sender: Sender, state: TransactionState) -> None:
        self._renumber(sender)
        sender.accumulator.forgive()
        state.ended()

    def _transactional(self) -> tuple[TransactionState, Transactions]:
        if self._state is None or self._transactions is None:
            raise IllegalStateError("this Producer makes no transactions", "Give it a transactional_id")
        return self._state, self._transactions

    async def _coordinated(self, work: Any) -> None:
        """Errors of the coordinators change what is allowed from now on, and so does an end that is cancelled."""
        assert self._state is not None
        try:
            await work
        except asyncio.CancelledError:
            self._state.interrupted()
            raise
        except (KafkaError, BootstrapError, ConnectionLostError, OSError) as error:
            cause = explained(error)
            if isinstance(cause, Exception):
                raise self._state.failed(cause) from None
            raise

    def _transaction_failed(self, error: Exception, from_coordinator: bool) -> None:
        if self._state is not None:
            self._state.failed(error, from_coordinator=from_coordinator)

    def _renumber(self, sender: Sender) -> None:
        transactions = self._transactions
        assert transactions is not None
        sender.accumulator.identify(transactions.producer_id, transactions.epoch)
        sender.accumulator.added = set() if transactions.version == 1 else None


async def leave_transaction(producer: TransactionCalls) -> LeftOpen:
    """Deliver all records of the transaction and leave it open: whoever is given the result ends it, with
    `end_left_open`, before transaction.timeout.ms. The producer can only be closed then. If a record cannot be
    delivered it raises, and the transaction must be aborted. Users have no such call."""
    sender = producer._running()
    state, transactions = producer._transactional()
    async with producer._ending:
        await producer._deliver_all(sender, state)
        state.leave()
        return LeftOpen(
            state.transactional_id,
            transactions.producer_id,
            transactions.epoch,
            transactions.version,
            producer._wrote(sender, state),
        )
