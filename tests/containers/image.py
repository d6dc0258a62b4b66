"""The image of this checkout, built as a user would build it where containers reach no package index."""

import os
import subprocess

from tests.tidy.source import ROOT

IMAGE = "rookery:test"
SPARK_IMAGE = "rookery-spark:latest"
MADE_SPARK_BASE = "local/debian-python-java:trixie"
MADE_BASE = "local/debian-python:trixie"
"""What .ci/docker-engine makes where no registry is reachable."""
PUBLIC_BASE = "python:3.13-slim"


def run(*command: str, **environment: str) -> str:
    """A command's output; what it said is part of the failure."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def base(made: str = MADE_BASE) -> str:
    found = subprocess.run(["docker", "image", "inspect", made], capture_output=True, check=False)
    return os.environ.get("ROOKERY_BASE") or (PUBLIC_BASE if found.returncode else made)


def build_spark() -> str:
    """The second image, with Java and Spark."""
    if base() == MADE_BASE:  # no registry is reachable
        run(".ci/docker-engine", "--java")
    run("deploy/gather-wheels", "--spark")
    run(
        "docker", "build", "--file", "deploy/Dockerfile.spark", "--build-arg", f"BASE={base(MADE_SPARK_BASE)}",
        "--tag", SPARK_IMAGE, ".",
        DOCKER_BUILDKIT="0",
    )  # fmt: skip
    return SPARK_IMAGE


def build() -> str:
    """Wheels from outside, then the image; returns its name."""
    run("deploy/gather-wheels")
    run(
        "docker", "build", "--file", "deploy/Dockerfile", "--build-arg", f"BASE={base()}", "--tag", IMAGE, ".",
        DOCKER_BUILDKIT="0",
    )  # fmt: skip
    return IMAGE


def size_mb(image: str) -> float:
    return int(run("docker", "image", "inspect", "--format", "{{.Size}}", image)) / 1e6
