"""Long searches."""


class SearchFailed(AssertionError):
    """A search that found something; what it had searched by then is part of the result."""

    def __init__(self, result: dict[str, object], found: str) -> None:
        super().__init__(found)
        self.result = result
