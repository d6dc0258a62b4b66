"""Prints how many product rows and invariants have a passing test: ``make rows``."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"row": ROOT / "docs" / "features.md", "invariant": ROOT / "docs" / "invariants.md"}
RESULT = ROOT / "build" / "rows.json"
_ID = re.compile(r"^\| ([RMPTGS]?\d+) \|", re.MULTILINE)


def declared(kind: str) -> list[str]:
    """The ids a page lists, in its order."""
    return _ID.findall(PAGES[kind].read_text())


def report(result: dict[str, dict[str, list[str]]]) -> str:
    lines = []
    for kind, title in (("row", "product rows"), ("invariant", "invariants")):
        ids = declared(kind)
        shown = set(result[kind]["shown"])
        lines.append(f"{sum(i in shown for i in ids)} of {len(ids)} {title} have a passing test")
        if result[kind]["failed"]:
            lines.append(f"  failing: {' '.join(result[kind]['failed'])}")
        lines.append(f"  without one: {' '.join(i for i in ids if i not in shown) or 'none'}")
    return "\n".join(lines)


def main() -> int:
    if not RESULT.exists():
        print("no test run has been recorded yet: run `make test` first", file=sys.stderr)
        return 1
    print(report(json.loads(RESULT.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
