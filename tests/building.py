"""Programs and libraries of other languages, fetched and built under build/ when they are first needed."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "build"


@contextmanager
def one_builder() -> Iterator[None]:
    """Tests may run in several processes, and Maven's cache is made for one: the others wait, and find it built."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
