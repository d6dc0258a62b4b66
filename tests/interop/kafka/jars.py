"""Kafka's jars, fetched once per content of the pom and kept under build/."""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tests import needs
from tests.building import one_builder

POM = Path(__file__).parent / "pom.xml"
BUILT = Path(__file__).parents[3] / "build" / "kafka"


QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
OWN_HEAP = "1g"
OWN_SETTINGS = (
    "-server",
    "-Xms1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""What Kafka's start script gives a server."""


def command(program: str, *, heap: str = "256m", options: tuple[str, ...] = QUICK_START) -> list[str]:
    """The command line that runs one of Kafka's main classes; `options` of Java."""
    java = needs.command("java", "Apache Kafka is one of the peers")
    jars = _fetched(needs.command("mvn", "it fetches Apache Kafka"))
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [java, f"-Xmx{heap}", *options, quiet, "-cp", f"{jars}/*", program]


def compiled(program: str) -> list[str]:
    """The command line that runs a Java program of this folder with Kafka's classes."""
    java, javac = needs.command("java", "Apache Kafka is one of the peers"), needs.command("javac", "part of a JDK")
    jars = _fetched(needs.command("mvn", "it fetches Apache Kafka"))
    source = POM.parent / f"{program}.java"
    folder = _built(javac, source, jars)
    return [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{jars}/*", program]


@one_builder()
def _built(javac: str, source: Path, jars: Path) -> Path:
    folder = BUILT.parent / "kafka-programs" / hashlib.sha256(POM.read_bytes() + source.read_bytes()).hexdigest()[:16]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            words = [javac, "-d", f"{scratch}/made", "-cp", f"{jars}/*", str(source)]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
            os.replace(f"{scratch}/made", folder)
    return folder


@one_builder()
def _fetched(mvn: str) -> Path:
    folder = BUILT / hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    if not folder.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
            made = f"{scratch}/lib"
            words = [mvn, "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={made}"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
            os.replace(made, folder)
    return folder
