"""The image of this checkout, built as a user would build it where containers reach no package index."""

import os
import subprocess

from tests.tidy.source import ROOT

IMAGE = "rookery:test"
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


def base() -> str:
    found = subprocess.run(["docker", "image", "inspect", MADE_BASE], capture_output=True, check=False)
    return os.environ.get("ROOKERY_BASE") or (PUBLIC_BASE if found.returncode else MADE_BASE)


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
