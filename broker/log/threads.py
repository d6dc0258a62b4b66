"""The port for blocking work: threads, and a twin that works at once, for virtual time and for tests."""

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Threads = Callable[[str, int], Executor]
"""Gives a pool of this name and size."""


def real_threads(name: str, size: int) -> Executor:
    return ThreadPoolExecutor(size, thread_name_prefix=name)


class InlineExecutor(Executor):
    """Does the work when it is handed over, on the caller's thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def no_threads(_name: str, _size: int) -> Executor:
    return InlineExecutor()
