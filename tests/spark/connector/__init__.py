"""Spark's own Kafka connector, fetched by Maven once per content of the pom, under build/."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.building import one_builder

POM = Path(__file__).parent / "pom.xml"
FETCHED = POM.parents[3] / "build" / "spark-connector"
FETCH_TIMEOUT_S = 240


def settings() -> dict[str, str]:
    """Settings of a session that knows `format("kafka")`; none where there is no Maven to fetch it."""
    mvn = shutil.which("mvn")
    return {} if mvn is None else {"spark.jars": ",".join(map(str, jars(mvn)))}


@one_builder()
def jars(mvn: str) -> list[Path]:
    folder = FETCHED / hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    if not folder.exists():
        FETCHED.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FETCHED) as scratch:
            made = Path(scratch) / "jars"
            _fetch([mvn, "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={made}"])
            os.replace(made, folder)
    return sorted(folder.glob("*.jar"))


def _fetch(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=FETCH_TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
