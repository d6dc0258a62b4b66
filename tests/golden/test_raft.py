"""Transcripts of Raft: `tests/golden/raft/*.txt` are commands, each with all that it brings about.

After an intended change, `REWRITE_GOLDEN=1 pytest tests/golden/test_raft.py` writes the transcripts anew:
read the difference before you commit it.
"""

import os
from pathlib import Path

import pytest

from tests.golden.raft.interaction import Interaction

FOLDER = Path(__file__).parent / "raft"
INVARIANTS = {"ongaro": "R12", "membership": "R12", "removed": "R14", "transfer": "R17", "wiped": "R13"}


def replay(text: str) -> str:
    """The same file with the results of its commands as they are now."""
    interaction = Interaction()
    out: list[str] = []
    in_result = False
    for line in text.splitlines():
        if not line:
            in_result = False
            out.append("")
        elif in_result:
            continue
        elif line.startswith("#"):
            out.append(line)
        elif line == "----":
            in_result = True
        else:
            out += [line, "----", interaction.run(line)]
            in_result = True
    return "\n".join(out) + "\n"


@pytest.mark.invariant("R12", "R13", "R14", "R15", "R17", "R9", "R11")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    expected = path.read_text()
    actual = replay(expected)
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_text(actual)
    else:
        assert actual == expected, f"{path.name} changed; REWRITE_GOLDEN=1 writes it anew, if that is intended"
