"""Requests that are carried out, and whose answers get lost with the connection."""

from collections.abc import Callable
from typing import Any

from rookery.broker.server.dispatch import Dispatch, Refused
from rookery.broker.server.pending import Pending

REASON = "the answer was to be lost"
Handle = Callable[..., Any]


class LostAnswers:
    """What is lost of one node's answers, over all its lives. For the nodes' loop."""

    def __init__(self) -> None:
        self._rules: list[tuple[int, Callable[[], bool]]] = []
        self._dispatch: Dispatch | None = None
        self._armed: set[int] = set()

    def begin_life(self, dispatch: Dispatch) -> None:
        self._dispatch, self._armed = dispatch, set()
        for key, _ in self._rules:
            self._arm(dispatch, key)

    def add(self, api: str, take: Callable[[], bool]) -> Callable[[], None]:
        """Lose answers to one kind of request as long as `take` says so. Returns how to undo it."""
        if self._dispatch is None:
            raise RuntimeError("the node has never run")
        keys = {served.api.name.lower(): served.api.key for served in self._dispatch.served}
        if api.lower() not in keys:
            raise ValueError(f"no API {api!r} is served; known are {', '.join(sorted(keys))}")
        rule = (keys[api.lower()], take)
        self._rules.append(rule)
        self._arm(self._dispatch, rule[0])
        return lambda: self._rules.remove(rule)

    def _arm(self, dispatch: Dispatch, key: int) -> None:
        if key not in self._armed:
            self._armed.add(key)
            route = dispatch.route(key)
            route.handle = losing(route.handle, lambda: self._takes(key), is_async=route.is_async)

    def _takes(self, key: int) -> bool:
        return any(take() for of, take in self._rules if of == key)


def losing(handle: Handle, take: Callable[[], bool], *, is_async: bool) -> Handle:
    """`handle`, but where `take` says so its answer is not sent: the connection closes."""

    async def later(request: Any, call: Any) -> Any:
        answer = await handle(request, call)
        if take():
            raise Refused(REASON)
        return answer

    def at_once(request: Any, call: Any) -> Any:
        answer = handle(request, call)
        if not take():
            return answer
        if not isinstance(answer, Pending):
            raise Refused(REASON)
        lost: Pending[Any] = Pending(blocks=answer.blocks)
        answer.receive(lambda _response, _error: lost.fail(Refused(REASON)))
        return lost

    return later if is_async else at_once
