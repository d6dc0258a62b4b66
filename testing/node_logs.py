"""What nodes in processes of their own have logged, for the timeline."""

import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from rookery.testing.timeline import QUIET, Entry, Timeline

LINE = re.compile(rb"^(\S+Z) (?:INFO|WARNING|ERROR|CRITICAL) +(\S+)(?: (.*))?$", re.MULTILINE)
OWN_ID = re.compile(r"\bnode=\d+ ?")


class NodeLogs:
    """Reads on where it was the last time. Lines of before the timeline began are left out."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._read: dict[Path, int] = {}

    def more(self, node_id: int, path: Path) -> list[Entry]:
        found: list[Entry] = []
        with suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            whole = file.read().rpartition(b"\n")[0]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in LINE.finditer(whole):
                entry = self._entry(node_id, *(str(part or b"", "utf-8", "replace") for part in line.groups()))
                if entry is not None:
                    found.append(entry)
        return found

    def _entry(self, node_id: int, at: str, event: str, fields: str) -> Entry | None:
        try:
            at_s = self._timeline.at_wall(int(datetime.fromisoformat(at).timestamp() * 1000))
        except ValueError:
            return None
        if at_s < 0 or event in QUIET:
            return None
        return Entry(at_s, f"node-{node_id}", f"{event} {OWN_ID.sub('', fields)}".rstrip())
