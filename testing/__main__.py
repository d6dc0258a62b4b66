"""``python -m rookery.testing``: a cluster for a test suite in another language. It prints its bootstrap addresses on
one line, and stops when its standard input (a pipe) is closed, its parent ends, or SIGTERM comes."""

import argparse
import sys
from pathlib import Path

from rookery.client.errors import CliError
from rookery.core.config.options import ConfigError
from rookery.core.config.properties import read_overrides
from rookery.testing.serving import serve


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rookery.testing", description=__doc__)
    parser.add_argument("--nodes", type=int, default=3, help="how many nodes, 3 by default")
    parser.add_argument("--port", type=int, default=0, help="the first node's Kafka port; free ones by default")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of every node")
    parser.add_argument("--data", type=Path, help="a folder for the data; in memory by default")
    parser.add_argument("--processes", action="store_true", help="a process for each node")
    given = parser.parse_args(arguments)
    try:
        serve(given.nodes, read_overrides(given.set), given.data, port=given.port, processes=given.processes)
    except (CliError, ConfigError) as error:
        print(f"rookery.testing: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
