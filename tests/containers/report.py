"""What was measured, told at the end of a run whether or not pytest shows what tests print."""

LINES: list[str] = []


def tell(line: str) -> None:
    LINES.append(line)
