"""Plain words: the ordinary English of the field in code, docs and configuration."""

import re

from tests.tidy.source import ROOT
from tests.tidy.test_tree import tracked

PLAIN = {
    "tell": "report, inform, distinguish",
    "tells": "reports, informs, distinguishes",
    "told": "reported, informed, distinguished",
    "hear": "receive, learn",
    "hears": "receives, learns",
    "heard": "received, learned",
    "hearsay": "reported only by a peer",
    "made again": "recreated",
}
"""What to write instead of words that are hard at first reading. Names have underscores between theirs."""

WORDS = re.compile(rf"(?<![a-z])({'|'.join(PLAIN)})(?![a-z])", re.IGNORECASE)
SUFFIXES = (".md", ".proto", ".properties", ".py", ".toml", ".yaml", ".yml")
GENERATED = ("_pb2.py", "_pb2_grpc.py")
OUTSIDE = ("src/", "tests/", "CHANGELOG.md")
"""Links to the other folders; what this rule came too late for; a page that only grows."""


def test_the_product_and_its_docs_are_in_plain_words() -> None:
    found = [
        f"{name}:{number}: {word}: write {PLAIN[word.lower()]}"
        for name in tracked()
        if name.endswith(SUFFIXES) and not name.endswith(GENERATED) and not name.startswith(OUTSIDE)
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        for word in WORDS.findall(line)
    ]
    assert found == []
