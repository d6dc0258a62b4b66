"""Runs long searches: ``python -m tests.soak [--seconds N] [name ...]``; results go to build/soak.jsonl."""

import argparse
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

from tests.soak import SearchFailed

FOLDER = Path(__file__).parent
RESULTS = FOLDER.parent.parent / "build" / "soak.jsonl"


def names() -> list[str]:
    return sorted(path.stem.removeprefix("soak_") for path in FOLDER.glob("soak_*.py"))


def commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.soak")
    parser.add_argument("--seconds", type=float, default=600.0, help="time for each search")
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(names())}; all unless given")
    wanted = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    failed = False
    for name in wanted.names or names():
        begun = time.monotonic()
        result: dict[str, object] = {"name": name, "commit": commit(), "python": sys.version.split()[0]}
        try:
            result.update(importlib.import_module(f"tests.soak.soak_{name}").main(wanted.seconds))
        except Exception as error:
            failed = True
            if isinstance(error, SearchFailed):
                result.update(error.result)
            result["failure"] = f"{type(error).__name__}: {error}"
        result["seconds"] = round(time.monotonic() - begun, 1)
        print(json.dumps(result), flush=True)
        with RESULTS.open("a") as out:
            out.write(json.dumps(result) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
