"""What a test needs of the machine, said in one place.

Each function skips the test with the reason when the machine lacks the thing; with
ROOKERY_TESTS_REQUIRE_ALL=1 (set in CI) it fails instead, so that nothing is passed over there.
"""

import os
import shutil
import subprocess

import pytest


def _lacking(reason: str) -> None:
    if os.environ.get("ROOKERY_TESTS_REQUIRE_ALL") == "1":
        pytest.fail(f"this run must skip nothing, but {reason}")
    pytest.skip(reason)


def root() -> None:
    if os.geteuid() != 0:
        _lacking("this test mounts file systems or makes network namespaces and needs root")


def command(name: str, why: str) -> str:
    found = shutil.which(name)
    if found is None:
        _lacking(f"the command {name!r} is not installed ({why})")
    return found or ""


def docker() -> None:
    client = shutil.which("docker")
    if client is None or subprocess.run([client, "info"], capture_output=True, check=False).returncode != 0:
        _lacking("no Docker engine answers")


def aimed_at_kafka() -> bool:
    """Whether the interop suite is run against Apache Kafka's server instead of this project's."""
    return os.environ.get("ROOKERY_TESTS_AIM", "") == "kafka"


def own_server(why: str) -> None:
    """For tests that look at what only this project's server has."""
    if aimed_at_kafka():
        pytest.skip(why)
