"""One transaction as `async with` has it: commits at the end, aborts if an exception comes out."""

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from rookery.client.errors import ClientError, KafkaError
from rookery.client.producer.transaction_state import Phase

if TYPE_CHECKING:
    from rookery.client.producer.producer import Producer


class Transaction:
    """One transaction of a producer, as `async with` has it."""

    def __init__(self, producer: "Producer") -> None:
        self._producer = producer
        self.send = producer.send
        self.send_many = producer.send_many
        self.send_offsets = producer.send_offsets

    async def __aenter__(self) -> "Transaction":
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                await self._producer.commit_transaction()
            except ClientError as failure:
                await self._abort_after(failure)
                raise
            except BaseException as failure:  # a broker's refusal, or cancelled
                with suppress(KafkaError):
                    await self._abort_after(failure)
                raise
            return
        await self._abort_after(error)

    async def _abort_after(self, error: BaseException) -> None:
        """Leave no open transaction behind. That another producer took over is more than what came before it."""
        state = self._producer.transaction_state
        if state is None or state.phase not in (Phase.OPEN, Phase.ABORTABLE):
            if (
                state is not None
                and state.phase is Phase.FATAL
                and state.error is not error
                and state.error is not None
            ):
                raise state.error from error
            return
        await self._producer.abort_transaction()
