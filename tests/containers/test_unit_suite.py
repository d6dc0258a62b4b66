"""The unit suite passes with the image's Python, against the package as it is installed in the image.

Spark is not part of the image, so what needs it is left out.
"""

import hashlib
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.containers.image import run
from tests.containers.report import tell
from tests.tidy.source import ROOT

pytestmark = pytest.mark.alone

PYTHON = "/opt/rookery/bin/python"
NOT_NEEDED = ("mypy", "ruff", "types-", "build", "testcontainers")
"""What only the machine that builds needs of the extra `dev`."""
WITHOUT = "--ignore=tests/unit/client/spark"


@pytest.fixture(scope="module")
def version(image: str) -> str:
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    return run("docker", "run", "--rm", "--entrypoint", PYTHON, image, "-c", script).strip()


@pytest.fixture(scope="module")
def extras(image: str, version: str) -> Path:
    """What the suite needs, unpacked for another Python than this one; kept for the next run."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    wanted = [each for each in extra if not each.startswith(NOT_NEEDED)]
    name = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:12]
    folder = ROOT / "build" / f"unit-suite-{version}-{name}"
    if not (folder / ".complete").exists():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade")
        run(*pip, "--only-binary=:all:", "--python-version", version, "--target", str(folder), *wanted)
        compiling = ("--user", "0", "--volume", f"{folder}:/extras", "--entrypoint", PYTHON, image)
        run("docker", "run", "--rm", *compiling, "-m", "compileall", "-q", "-j", "0", "/extras")
        (folder / ".complete").touch()
    return folder


def suite(image: str, extras: Path, folders: list[str]) -> str:
    """Run a part of the suite in a container that has no network and cannot write to the checkout."""
    with tempfile.TemporaryDirectory(prefix="rookery-test-") as results:
        Path(results).chmod(0o777)
        mounts = (
            "--volume", f"{ROOT}:/src:ro", "--volume", f"{extras}:/extras:ro", "--volume", f"{results}:/src/build",
            "--env", "PYTHONPATH=/extras", "--env", "PYTHONDONTWRITEBYTECODE=1", "--workdir", "/src",
            "--env", "HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis",
        )  # fmt: skip
        options = ("-q", "--tb=short", "-p", "no:cacheprovider", "--override-ini", "pythonpath=.", WITHOUT)
        return run(
            "docker", "run", "--rm", "--no-healthcheck", "--network", "none", *mounts, "--entrypoint", PYTHON, image,
            "-m", "pytest", *options, *folders,
        )  # fmt: skip


def parts() -> Iterator[list[str]]:
    """Two parts that take about the same time, one for each core of a small machine."""
    found = {path.name for path in (ROOT / "tests" / "unit").iterdir() if path.name[0] not in "_."}
    for names in (found - {"broker", "controller"}, found & {"broker", "controller"}):
        yield [f"tests/unit/{name}" for name in sorted(names)]


@pytest.mark.row(152)
@pytest.mark.timeout(900)
def test_the_unit_suite_passes_in_the_image(image: str, version: str, extras: Path) -> None:
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda folders: suite(image, extras, folders), parts()))
    for result in results:
        tell(f"unit suite with the image's Python {version}: {result.splitlines()[-1]}")
