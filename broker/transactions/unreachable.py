"""Which brokers cannot be asked, so that each is logged when that begins and now and then, not with every attempt."""

REPORT_AGAIN_S = 60.0
"""While a broker cannot be asked. Whoever is refused because of it tries again several times a second."""


class Unreachable:
    def __init__(self) -> None:
        self._silent_until: dict[int, float] = {}

    def is_news(self, broker: int, now: float) -> bool:
        """Whether this failure is to be logged."""
        if now < self._silent_until.get(broker, now):
            return False
        self._silent_until[broker] = now + REPORT_AGAIN_S
        return True

    def answered(self, broker: int) -> None:
        """The next failure is news."""
        self._silent_until.pop(broker, None)
