"""The memory that requests on their way in may use together (`queued.max.request.bytes`)."""

from collections.abc import Callable


class RequestMemory:
    """A budget. As in Kafka it may be overdrawn by one request: whoever finds any of it free gets all it asks
    for, so a request larger than the whole budget is served too, and none starves behind smaller ones."""

    def __init__(self, limit: int) -> None:
        self._limit = limit if limit > 0 else None
        self._waiting: dict[Callable[[], None], None] = {}
        self.used = 0

    def take(self, size: int) -> bool:
        if self._limit is not None and self.used >= self._limit:
            return False
        self.used += size
        return True

    def wait(self, resume: Callable[[], None]) -> None:
        """Have `resume` called, once, when there is memory again; first come, first served."""
        self._waiting[resume] = None

    def forget(self, resume: Callable[[], None]) -> None:
        self._waiting.pop(resume, None)

    def give(self, size: int) -> None:
        self.used -= size
        while self._waiting and (self._limit is None or self.used < self._limit):
            resume = next(iter(self._waiting))
            del self._waiting[resume]
            resume()

    @property
    def waiting(self) -> int:
        return len(self._waiting)
