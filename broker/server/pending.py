"""An answer that comes later.

A handler that cannot answer at once returns a `Pending` and completes it when its wait is over. It is much
cheaper than an `asyncio.Future`: no loop, no context, one receiver, and completing it calls the receiver at
once.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class Pending(Generic[R]):
    """Completed exactly once, by `complete` or `fail`; whatever comes after the first is ignored."""

    __slots__ = (
        "_abandoned", "_done", "_error", "_receive", "_response", "blocks", "on_abandon", "on_hurry", "on_release",
    )  # fmt: skip

    def __init__(self, *, blocks: bool = True) -> None:
        self.blocks = blocks
        """Whether the connection's next requests have to wait until this one is answered. Only where the work
        is done and its answer alone is awaited may they start before."""
        self._done = False
        self._abandoned = False
        self._response: R | None = None
        self._error: BaseException | None = None
        self._receive: Callable[[R | None, BaseException | None], None] | None = None
        self.on_abandon: Callable[[], object] | None = None
        """Called when the answer is no longer needed, so that a parked wait can be dropped."""
        self.on_release: Callable[[], None] | None = None
        """Called when it blocks no longer, though the answer is still awaited."""
        self.on_hurry: Callable[[], None] | None = None
        """Called when the client has sent more behind this request: a wait that could end now does."""

    @property
    def done(self) -> bool:
        return self._done

    def complete(self, response: R | None) -> None:
        """Deliver the answer; None means that no answer is sent."""
        self._settle(response, None)

    def fail(self, error: BaseException) -> None:
        """The handler failed: the connection is closed, because no answer would be right."""
        self._settle(None, error)

    def receive(self, receiver: Callable[[R | None, BaseException | None], None]) -> None:
        """Have the outcome handed to `receiver`, at once if it is there."""
        self._receive = receiver
        if self._done and not self._abandoned:
            receiver(self._response, self._error)

    def follow(self, other: "Pending[R]") -> None:
        """Take over the outcome of `other`, and block no longer than it does."""
        if self._abandoned:
            other.abandon()
            return
        self.on_abandon = other.abandon
        if self.blocks and not other.blocks:
            self.blocks = False
            if self.on_release is not None:
                self.on_release()
        other.receive(self._settle)

    def abandon(self) -> None:
        """The client has gone."""
        if not self._done:
            self._done = self._abandoned = True
            if self.on_abandon is not None:
                self.on_abandon()

    def _settle(self, response: R | None, error: BaseException | None) -> None:
        if self._done:
            return
        self._done = True
        self._response, self._error = response, error
        if self._receive is not None:
            self._receive(response, error)
