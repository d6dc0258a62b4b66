"""The product's source files and what each imports."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("core", "proto", "controller", "broker", "client", "testing")


def files(*folders: str) -> Iterator[Path]:
    """Hand-written source files below the folders, relative to the root."""
    for folder in folders or FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.stem.endswith(("_pb2", "_pb2_grpc")):
                yield path.relative_to(ROOT)


def imports(path: Path) -> set[str]:
    """Full names of all that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def part(module: str) -> str:
    """``rookery.broker.log`` belongs to ``broker``; other packages to nobody."""
    found = module.split(".")[1] if module.startswith("rookery.") else ""
    return found if found in FOLDERS else ""
