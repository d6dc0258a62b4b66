"""Runs benchmarks: ``python -m tests.bench [name ...]`` runs bench_<name>.py, or all."""

import importlib
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent


def names() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def main(wanted: list[str]) -> int:
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"no benchmark named {', '.join(unknown)}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    for name in wanted or names():
        print(f"\n== {name} ==", flush=True)
        begun = time.monotonic()
        importlib.import_module(f"tests.bench.bench_{name}").main()
        print(f"({name} took {time.monotonic() - begun:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
