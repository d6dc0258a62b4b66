"""Writes what is generated from the code, the pages of docs/ and the types of the blocking clients: ``make docs``."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory

from rookery.broker import handlers as broker_handlers
from rookery.broker.node.node import build_node
from rookery.core.config import ignored, node, topic
from rookery.core.config.options import Option, Settings, as_text
from rookery.core.metrics import Family, Metrics
from rookery.core.wire.served import Served
from tests.rows import page_with_tests
from tests.tidy import faces
from tests.tidy.cli_page import page as cli_page
from tests.tidy.source import ROOT


def _row(option: Option[object]) -> str:
    default = "" if option.nullable else as_text(option.default)
    shown = f"`{default}`" if default not in ("", None) else ""
    also = f" Also set by {', '.join(f'`{name}`' for name in option.synonyms)}." if option.synonyms else ""
    return f"| `{option.name}` | {option.kind.type_name} | {shown} | {option.doc}{also} |"


def _table(options: Iterable[Option[object]]) -> list[str]:
    return ["| key | type | default | what it does |", "|---|---|---|---|", *map(_row, options)]


def configuration() -> str:
    lines = [
        "# Configuration",
        "",
        "Kafka's keys, types, units and defaults. A `.properties` file is overridden by the environment",
        "(`KAFKA_` + the key in capitals with `.` as `_`, `_` as `__`, `-` as `___`), the environment by",
        "`--set key=value`.",
        "An unknown key causes a warning; a wrong value stops the start. This page is generated: `make docs`.",
        "",
        "## A node",
        "",
        *_table(node.TABLE),
        "",
        "## A topic",
        "",
        "Set when a topic is created or later. A topic without a value uses the broker option named beside it.",
        "",
        *_table(topic.TABLE),
        "",
        "## Known to Kafka, without effect here",
        "",
        "| key | consequence |",
        "|---|---|",
        *(f"| `{key}` | {text} |" for key, text in sorted(ignored.UNSUPPORTED.items())),
        "",
    ]
    return "\n".join(lines)


def handlers() -> list[Served]:
    """What the broker's handlers declare, by API key."""
    found = {}
    for module in iter_modules(broker_handlers.__path__, f"{broker_handlers.__name__}."):
        for value in vars(import_module(module.name)).values():
            served = getattr(value, "served", None)
            if isinstance(value, type) and isinstance(served, Served):
                found[served.api.key] = served
    return [found[key] for key in sorted(found)]


def protocol() -> str:
    lines = [
        "# The protocol, as served",
        "",
        "APIs and versions that the broker serves, from the declarations of its handlers; ApiVersions is derived from",
        "the same. The codec in `core/wire` has more APIs than are served. This page is generated: `make docs`.",
        "",
        "| key | API | served | advertised | Kafka's range | flexible from |",
        "|---|---|---|---|---|---|",
    ]
    for served in handlers():
        api = served.api
        flexible = "" if api.flexible_from is None else str(api.flexible_from)
        lines.append(
            f"| {api.key} | {api.name} | {served.min}–{served.max} | {served.lowest_advertised}–{served.max} "
            f"| {api.min_version}–{api.max_version} | {flexible} |"
        )
    return "\n".join([*lines, ""])


async def _declared() -> list[Family]:
    """What a node with both roles exports: the node is built, not started."""
    metrics = Metrics()
    with TemporaryDirectory() as folder:
        settings = Settings(node.TABLE).having(
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "rookery.cluster.id": "generated-pages-00001",
                "log.dirs": folder,
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": "1@127.0.0.1:1",
            }
        )
        built = await build_node(settings, metrics=metrics)
        built.unlock()
    return sorted(metrics.families)


def _metric(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.text} |"


def metrics() -> str:
    lines = [
        "# Metrics",
        "",
        "What a node with both roles exports at `/metrics`. Kafka's metrics have the names of jmx_exporter's example,",
        "consumer lag those of kafka_exporter; Rookery's own begin with `rookery_`.",
        "`process_*` are those of the Prometheus client library. This page is generated: `make docs`.",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
        *map(_metric, asyncio.run(_declared())),
        "",
    ]
    return "\n".join(lines)


PAGES: dict[Path, Callable[[], str]] = {
    faces.PATH: faces.text,
    ROOT / "docs" / "cli.md": cli_page,
    ROOT / "docs" / "configuration.md": configuration,
    ROOT / "docs" / "features.md": partial(page_with_tests, "row"),
    ROOT / "docs" / "invariants.md": partial(page_with_tests, "invariant"),
    ROOT / "docs" / "attacks.md": partial(page_with_tests, "attack"),
    ROOT / "docs" / "metrics.md": metrics,
    ROOT / "docs" / "protocol.md": protocol,
}


def main() -> None:
    for path, write in PAGES.items():
        path.write_text(write())
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
