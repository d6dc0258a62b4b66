"""What the pipeline commands share: pairs of arguments, lines for a person, and the reason in a trace of Java."""

import re
import sys

from rookery.client.errors import UsageError


def pairs(texts: list[str], flag: str) -> dict[str, str]:
    """``key=value`` arguments as a mapping."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"{flag} {text}: KEY=VALUE is needed")
        found[key] = value
    return found


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def reason(error: Exception) -> str:
    """The line that says what happened, out of the traces of Python within Java within Python."""
    lines = [line.strip() for line in str(error).splitlines()]
    errors = [line for line in lines if re.match(r"[\w.]+Error: ", line)]
    ours = [line for line in errors if line.startswith("rookery.")]
    if ours:
        return ours[-1].partition("Error: ")[2]
    return errors[-1] if errors else next(iter(lines), type(error).__name__)
