"""Which tests show which product rows, invariants and attacks. ``make rows`` prints how many have a passing test."""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "row": ROOT / "docs" / "features.md",
    "invariant": ROOT / "docs" / "invariants.md",
    "attack": ROOT / "docs" / "attacks.md",
}
SHOWN = 2
"""Test modules named for one row; the rest is counted."""
RESULT = ROOT / "build" / "rows.json"
_ID = re.compile(r"^\| ([RMPTGS]?\d+) \|", re.MULTILINE)


def declared(kind: str) -> list[str]:
    """The ids a page lists, in its order."""
    return _ID.findall(PAGES[kind].read_text())


def markers(kind: str) -> Iterator[tuple[Path, str]]:
    """Files with tests that carry the marker, and the id it names."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text()
        if f"pytest.mark.{kind}(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == kind
                and ast.unparse(node.func.value) == "pytest.mark"
            ):
                for argument in node.args:
                    if isinstance(argument, ast.Constant):
                        yield path, str(argument.value)


def page_with_tests(kind: str) -> str:
    """The page of rows or invariants, its last column made anew: where tests of each are."""
    where: dict[str, dict[str, None]] = {}
    for path, id in markers(kind):
        name = path.relative_to(ROOT / "tests").with_suffix("").as_posix()
        where.setdefault(id, {})[name] = None
    lines = []
    for line in PAGES[kind].read_text().splitlines():
        found = _ID.match(line)
        if found:
            shown = list(where.get(found[1], ()))
            more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
            text = line.split(" | ")[1].removesuffix(" |")
            tests = ", ".join(f"`{name}`" for name in shown[:SHOWN])
            line = f"| {found[1]} | {text} | {tests}{more} |"
        lines.append(line)
    return "\n".join([*lines, ""])


def report(result: dict[str, dict[str, list[str]]]) -> str:
    lines = []
    for kind, title in (("row", "product rows"), ("invariant", "invariants"), ("attack", "attacks")):
        ids = declared(kind)
        found = result.get(kind, {"shown": [], "failed": []})
        shown = set(found["shown"])
        lines.append(f"{sum(i in shown for i in ids)} of {len(ids)} {title} have a passing test")
        if found["failed"]:
            lines.append(f"  failing: {' '.join(found['failed'])}")
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
