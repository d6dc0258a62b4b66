"""The programs of the folder go/, compiled under build/."""

import os
import subprocess
from functools import cache
from pathlib import Path

from tests import needs
from tests.building import FOLDER, one_builder

SOURCES = Path(__file__).parent / "go"
COMPILE_S = 300


@cache
@one_builder()
def go_program(package: str) -> str:
    """The path of a compiled program; Go itself sees whether anything has changed."""
    go = needs.command("go", "two of the clients are written in it")
    built = FOLDER.resolve() / "go" / package
    built.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false"}
    words = [go, "build", "-o", str(built), f"./{package}"]
    subprocess.run(words, cwd=SOURCES, check=True, env=environment, timeout=COMPILE_S)
    return str(built)
