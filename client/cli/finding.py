"""Which cluster a command talks to: the one that was named, else the one that is nearest."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rookery.client.cli.contexts import contexts_path, read_contexts
from rookery.client.errors import CliError, UsageError
from rookery.client.local import cluster_file
from rookery.client.local.cluster_file import ClusterFile, DamagedClusterFileError
from rookery.core.config.options import ConfigError
from rookery.core.config.properties import read_properties

FOLDER = ".rookery"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_CONTROLLERS = "127.0.0.1:9192"
BOOTSTRAP_VARIABLE = "ROOKERY_BOOTSTRAP"
CONTROLLERS_VARIABLE = "ROOKERY_CONTROLLERS"
COMMAND_CONFIG_VARIABLE = "ROOKERY_COMMAND_CONFIG"


class Found(NamedTuple):
    """Addresses, and where they come from; nothing if the user named them."""

    addresses: str
    origin: str = ""


def bootstrap(
    given: str | None, environ: Mapping[str, str] = os.environ, here: Path | None = None
) -> str:
    """The brokers to ask; says on standard error which ones when none were named."""
    return _announced(_find(given, environ, here or Path.cwd(), BOOTSTRAP_VARIABLE, "bootstrap", DEFAULT_BOOTSTRAP))


def connecting(
    given: str | None,
    command_config: Path | None,
    environ: Mapping[str, str] = os.environ,
    here: Path | None = None,
) -> tuple[str, dict[str, str]]:
    """The brokers to ask, and the client properties: of the file that was named, or of the secure cluster that is
    nearest. The file may name the brokers, too."""
    path = command_config or _named_file(environ)
    properties = properties_of(path) if path is not None else {}
    named = given if given is not None else properties.get("bootstrap.servers")
    context = _context(environ, "bootstrap") if named is None and not environ.get(BOOTSTRAP_VARIABLE) else None
    if context is not None and path is None:
        secured = _context(environ, "command-config")
        path = Path(secured.addresses) if secured is not None else None
        properties = properties_of(path) if path is not None else {}
    asked = named is not None or environ.get(BOOTSTRAP_VARIABLE) or context
    secure = _nearest_secure(here or Path.cwd()) if path is None and not asked else None
    return bootstrap(named, environ, here), properties_of(secure) if secure is not None else properties


def controllers_file(
    given: str | None,
    command_config: Path | None,
    environ: Mapping[str, str] = os.environ,
    here: Path | None = None,
) -> Path | None:
    """The client properties for controllers, found like those for brokers."""
    path = command_config or _named_file(environ)
    if path is not None or given is not None or environ.get(CONTROLLERS_VARIABLE):
        return path
    if _context(environ, "controllers") is None:
        return _nearest_secure(here or Path.cwd())
    secured = _context(environ, "command-config")
    return Path(secured.addresses) if secured is not None else None


def _named_file(environ: Mapping[str, str]) -> Path | None:
    named = environ.get(COMMAND_CONFIG_VARIABLE)
    return Path(named) if named else None


def properties_of(path: Path) -> dict[str, str]:
    """The properties of a file for ``--command-config``."""
    try:
        return read_properties(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise UsageError(f"--command-config {path}: {getattr(error, 'strerror', None) or error}") from error


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
    """What the current context says of `what`."""
    used = read_contexts(environ).in_use(environ)
    if used is None or not used[1].get(what):
        return None
    return Found(used[1][what], f"context {used[0]} of {contexts_path(environ)}")


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


def _nearest_secure(here: Path) -> Path | None:
    """The client properties of the nearest cluster, if `rookery up --secure` started it."""
    for folder in (here, *here.parents):
        cluster = cluster_file.read(folder / FOLDER)
        if cluster is not None:
            return folder / FOLDER / cluster_file.CLIENT_PROPERTIES if cluster.secure else None
    return None


def _controllers(cluster: ClusterFile) -> str:
    return ",".join(node.grpc for node in cluster.nodes if node.id <= cluster.controllers)
