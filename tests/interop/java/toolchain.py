"""Compiles the Java programs of a folder against what its pom pins, once per content, under build/."""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tests import needs
from tests.building import one_builder

SOURCES = Path(__file__).parent
BUILT = SOURCES.parents[2] / "build" / "java"


def command(program: str, sources: Path = SOURCES) -> list[str]:
    """The command line that runs `program`, a class of this folder or another."""
    java = needs.command("java", "the Java client is one of the peers")
    folder = _compiled(
        sources, needs.command("mvn", "it fetches the Java client"), needs.command("javac", "part of a JDK")
    )
    return [java, "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{folder}/lib/*", program]


@one_builder()
def _compiled(sources: Path, mvn: str, javac: str) -> Path:
    files = [sources / "pom.xml", *sorted(sources.glob("*.java"))]
    folder = BUILT / hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    if not folder.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
            made = Path(scratch) / "made"
            pom = str(sources / "pom.xml")
            _run(
                [mvn, "-B", "-q", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={made}/lib"]
            )
            _run([javac, "-d", str(made), "-cp", f"{made}/lib/*", *map(str, files[1:])])
            os.replace(made, folder)
    return folder


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
