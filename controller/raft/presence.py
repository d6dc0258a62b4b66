"""Which nodes are there, told by their fetches: the leader holds one of each open, or has just answered it.

A fetch that is cut off means that the caller's connection closed, most likely because its process ended. A
node whose last fetch was answered asks again at once; one that does not, for `silence_s`, has ended between
two fetches or hangs. Either way it is reported once, until it fetches again.
"""

import asyncio
from collections.abc import Callable

from rookery.core.logs import get_logger

_log = get_logger("controller.raft.presence")
SILENCE_S = 0.5


class Presence:
    def __init__(self, leads: Callable[[], bool], silence_s: float = SILENCE_S) -> None:
        """`leads` tells whether nodes should be fetching here at all."""
        self._leads = leads
        self._silence_s = silence_s
        self._hooks: list[Callable[[int], None]] = []
        self._expected: dict[int, asyncio.TimerHandle] = {}
        self._stopped = False

    def on_closed(self, hook: Callable[[int], None]) -> None:
        """Call `hook` with the id of a node that is gone."""
        self._hooks.append(hook)

    def asked(self, node_id: int) -> None:
        timer = self._expected.pop(node_id, None)
        if timer is not None:
            timer.cancel()

    def answered(self, node_id: int) -> None:
        self.asked(node_id)
        if not self._stopped:
            loop = asyncio.get_running_loop()
            self._expected[node_id] = loop.call_later(self._silence_s, self._closed, node_id, "silent")

    def cut(self, node_id: int) -> None:
        self.asked(node_id)
        self._closed(node_id, "closed")

    def stop(self) -> None:
        """Cut calls are this node's own doing from now on."""
        self._stopped = True
        for timer in self._expected.values():
            timer.cancel()
        self._expected.clear()

    def _closed(self, node_id: int, how: str) -> None:
        self._expected.pop(node_id, None)
        if not self._stopped and self._leads():
            _log.info("raft.peer.gone", peer=node_id, how=how)
            for hook in self._hooks:
                hook(node_id)
