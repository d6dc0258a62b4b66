"""Blocking versions of the asyncio clients: the same calls, each waits until it is done.

`BlockingClient` wraps any client: coroutines become functions, asynchronous iterators and contexts become plain ones.
Each client has an event loop in a thread of its own, so heartbeats and deliveries go on while the program does other
things. Calls may come from several threads where the client allows that.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from rookery.client.errors import ForkedError
from rookery.client.loop_thread import LoopThread
from rookery.client.session import fork_count

F = TypeVar("F", bound="BlockingClient")
C = TypeVar("C", bound="BlockingContext")
T = TypeVar("T")


class BlockingClient:
    """A client of `made_of`, usable without asyncio. Starts with `with` or `start()`."""

    made_of: ClassVar[Callable[..., Any]]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._forks = fork_count()
        self._thread: LoopThread | None = None
        self._ended = False
        self._client = self._make(arguments, options)

    def _make(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Wrong options are an error here, before a thread runs."""
        thread = LoopThread(f"rookery-{type(self).__name__.lower()}")

        async def make() -> Any:
            return type(self).made_of(*arguments, **options)

        try:
            client = thread.run(make())
        except BaseException:
            thread.stop()
            raise
        self._thread = thread
        return client

    def __enter__(self: F) -> F:
        try:
            self._run(self._client.start)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(self._client.__aexit__, kind, error, trace)

    def start(self: F) -> F:
        """As `with` does it."""
        return self.__enter__()

    def close(self, *arguments: Any, **options: Any) -> None:
        """Close the client and end its thread; calls after the first do nothing."""
        self._end(self._client.close, *arguments, **options)

    def _end(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        if not self._ended and not self._forked:
            try:
                self._run(function, *arguments, **options)
            finally:
                self._stop()

    def _stop(self) -> None:
        self._ended = True
        if self._thread is not None:
            self._thread.stop()

    @property
    def _forked(self) -> bool:
        return self._forks != fork_count()

    def _loop(self) -> LoopThread:
        if self._forked or self._thread is None:
            raise ForkedError(type(self).__name__.removeprefix("Blocking"))
        return self._thread

    def _run(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call `function` in the loop, and wait if it returns something to wait for."""

        async def call() -> Any:
            await self._before_call()
            result = function(*arguments, **options)
            return await result if inspect.iscoroutine(result) else result

        return self._given(self._loop().run(call()))

    async def _before_call(self) -> None:
        """What must be done in the loop first."""

    def _given(self, result: Any) -> Any:
        """A result as callers without asyncio can use it."""
        if hasattr(result, "__aenter__"):
            return BlockingContext(self, result)
        if isinstance(result, AsyncIterator):
            return self._loop().iterate(result)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if hasattr(result, "__await__"):
            return BlockingResult[Any](self, result)
        return result

    if not TYPE_CHECKING:  # checkers know the calls of each client

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            found = getattr(self._client, name)
            if not callable(found):
                return found

            @wraps(found)
            def blocking(*arguments: Any, **options: Any) -> Any:
                return self._run(found, *arguments, **options)

            return blocking

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self._client) if not name.startswith("_"))})

    def __iter__(self) -> Iterator[Any]:
        async def begin() -> AsyncIterator[Any]:
            iterator: AsyncIterator[Any] = aiter(self._client)
            return iterator

        return self._loop().iterate(self._loop().run(begin()))


class BlockingContext:
    """An asynchronous context, such as a transaction; its coroutines block, too."""

    def __init__(self, face: BlockingClient, context: Any) -> None:
        self._face = face
        self._context = context

    def __enter__(self: C) -> C:
        self._face._run(self._context.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._face._run(self._context.__aexit__, kind, error, trace)

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._face, name, None)  # the face may have a quicker way
        if own is not None and callable(own):
            return own
        return getattr(self._context, name)


class BlockingResult(Generic[T]):
    """Something on its way: `result()` waits for it."""

    def __init__(self, face: BlockingClient, awaited: Any) -> None:
        self._face = face
        self._awaited = awaited

    def result(self, timeout_s: float | None = None) -> T:
        async def wait() -> T:
            value: T = await self._awaited
            return value

        return self._face._loop().run(wait(), timeout_s)

    def done(self) -> bool:
        return bool(self._awaited.done())

    def __len__(self) -> int:
        return len(self._awaited)
