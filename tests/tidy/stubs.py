"""Write the Python stubs of every file in proto/: ``python -m tests.tidy.stubs``.

The stubs are committed, so that installing needs no compiler; `test_generated` shows that they match.
"""

from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
INCLUDED = Path(grpc_tools.__file__).parent / "_proto"


def protos() -> list[Path]:
    return sorted((SOURCES / "rookery" / "proto").glob("*.proto"))


def generate(into: Path) -> None:
    """Write the stubs below `into`/rookery/proto."""
    code = protoc.main(
        [
            "protoc",
            f"-I{SOURCES}",
            f"-I{INCLUDED}",
            f"--python_out={into}",
            f"--pyi_out={into}",
            f"--grpc_python_out={into}",
            *map(str, protos()),
        ]
    )
    if code != 0:
        raise SystemExit(f"protoc failed with exit code {code}; its messages are above")


if __name__ == "__main__":
    generate(SOURCES)
