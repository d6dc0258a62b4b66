"""Log events: one name, one meaning."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOGGERS = ("_log", "log")


def emitted() -> dict[str, dict[tuple[str, ...], list[str]]]:
    """By event: the fields it is emitted with, and where."""
    found: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for folder in ("broker", "controller", "core", "client"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name(id=name)),
                        args=[ast.Constant(value=str(event)), *_],
                        keywords=keywords,
                    ) if name in LOGGERS:
                        fields = tuple(sorted(keyword.arg or "**" for keyword in keywords))
                        found[event][fields].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_an_event_has_the_same_fields_in_every_module_that_emits_it() -> None:
    events = emitted()
    assert len(events) > 50
    different = {
        event: dict(places)
        for event, places in events.items()
        if len(places) > 1 and len({where.partition(":")[0] for each in places.values() for where in each}) > 1
    }
    assert not different, "two meanings under one name: rename one of them, or give both the same fields"
