"""Asks the node that runs with a configuration whether it is ready: the health check of the container image.

    python -m rookery.broker.node.probe --config FILE

Ends with 0 if it is, with 1 and the reasons if it is not. Imports little, since it runs every few seconds.
"""

import argparse
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from rookery.core.config import node
from rookery.core.config.listeners import parse_address
from rookery.core.config.loading import load, read_environment, read_properties
from rookery.core.config.options import ConfigError, Settings

TIMEOUT_S = 4.0
EVERYWHERE = ("", "0.0.0.0", "::")


def page(settings: Settings) -> str:
    """Where the node says whether it is ready."""
    text = settings[node.HTTP_LISTENER]
    if not text:
        raise ConfigError(node.HTTP_LISTENER.name, text, "host:port is needed to ask the node how it is")
    host, port = parse_address(node.HTTP_LISTENER.name, text)
    host = "127.0.0.1" if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}/readyz"


def not_ready(url: str) -> str:
    """Why the node is not ready; empty when it is."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode("utf-8", "replace").strip() or str(error)
    except OSError as error:
        return f"{url} does not answer: {error}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="probe", description="Is the node of this configuration ready?")
    parser.add_argument("--config", type=Path, required=True)
    config = parser.parse_args(argv).config
    values, _ = read_environment(os.environ)
    try:
        url = page(load([("file", read_properties(config.read_text())), ("environment", values)]).settings)
    except (ConfigError, OSError) as error:
        reasons = str(error)
    else:
        reasons = not_ready(url)
    print(reasons or "ready")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
