"""Which cluster a command talks to: the one that was named, else the one that is nearest."""

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rookery.client.errors import CliError, UsageError
from rookery.client.local import cluster_file
from rookery.client.local.cluster_file import ClusterFile, DamagedClusterFileError

FOLDER = ".rookery"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_CONTROLLERS = "127.0.0.1:9192"
BOOTSTRAP_VARIABLE = "ROOKERY_BOOTSTRAP"
CONTROLLERS_VARIABLE = "ROOKERY_CONTROLLERS"
CONTEXT_VARIABLE = "ROOKERY_CONTEXT"


class Found(NamedTuple):
    """Addresses, and where they come from; nothing if the user named them."""

    addresses: str
    origin: str = ""


def bootstrap(
    given: str | None, environ: Mapping[str, str] = os.environ, here: Path | None = None
) -> str:
    """The brokers to ask; says on standard error which ones when none were named."""
    return _announced(_find(given, environ, here or Path.cwd(), BOOTSTRAP_VARIABLE, "bootstrap", DEFAULT_BOOTSTRAP))


def controllers(
    given: str | None, environ: Mapping[str, str] = os.environ, here: Path | None = None
) -> str:
    """The controllers to ask, found like the brokers."""
    return _announced(
        _find(given, environ, here or Path.cwd(), CONTROLLERS_VARIABLE, "controllers", DEFAULT_CONTROLLERS)
    )


def _announced(found: Found) -> str:
    if found.origin:
        print(f"cluster: {found.addresses} ({found.origin})", file=sys.stderr)
    return found.addresses


def _find(
    given: str | None, environ: Mapping[str, str], here: Path, variable: str, what: str, default: str
) -> Found:
    if given is not None:
        return Found(given)
    if environ.get(variable):
        return Found(environ[variable])
    return _context(environ, what) or _nearest(here, what) or Found(default, "the default: no cluster was named")


def _context(environ: Mapping[str, str], what: str) -> Found | None:
    """The current context of ``config.toml``: ``current = "name"`` and ``[contexts.name]`` with addresses."""
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".config")
    path = Path(home) / "rookery" / "config.toml"
    asked = environ.get(CONTEXT_VARIABLE)
    try:
        config = tomllib.loads(path.read_text())
    except OSError:
        config = {}
    except tomllib.TOMLDecodeError as error:
        raise CliError(f"{path} cannot be read: {error}") from error
    name = asked or config.get("current")
    if not name:
        return None
    context = config.get("contexts", {}).get(name)
    if context is None:
        named_by = f"{CONTEXT_VARIABLE}={name}" if asked else f"{path}: current = {name!r}"
        raise UsageError(f"{named_by}: {path} has no [contexts.{name}]")
    addresses = context.get(what)
    return Found(str(addresses), f"context {name} of {path}") if addresses else None


def _nearest(here: Path, what: str) -> Found | None:
    """The nodes of the nearest cluster that `rookery up` started, from this folder upwards."""
    for folder in (here, *here.parents):
        try:
            cluster = cluster_file.read(folder / FOLDER)
        except (OSError, DamagedClusterFileError) as error:
            raise CliError(str(error)) from error
        if cluster is not None:
            addresses = cluster.bootstrap if what == "bootstrap" else _controllers(cluster)
            return Found(addresses, f"from {folder / FOLDER / cluster_file.NAME}")
    return None


def _controllers(cluster: ClusterFile) -> str:
    return ",".join(node.grpc for node in cluster.nodes if node.id <= cluster.controllers)
