"""Structured logging: a stable event name plus fields, as JSON lines or for people.

    log = get_logger("broker.replication")
    log.info("isr.shrink", topic="orders", partition=0, isr=[1, 2])

Event names are part of the product: tests, dashboards and users search for them.
"""

import json
import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

ROOT = "rookery"


class EventLogger:
    """A logger whose message is an event name and whose details are fields."""

    def __init__(self, logger: logging.Logger, bound: dict[str, object] | None = None) -> None:
        self._logger = logger
        self._bound = bound or {}

    def bind(self, **fields: object) -> "EventLogger":
        """The same logger with `fields` on every line."""
        return EventLogger(self._logger, {**self._bound, **fields})

    def debug(self, event: str, **fields: object) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, error: BaseException, **fields: object) -> None:
        """An error with its traceback: for bugs, not for what operators can cause."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._logger.error(event, extra={"fields": {**self._bound, **fields}}, exc_info=error)

    def _log(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": {**self._bound, **fields}})


def get_logger(name: str) -> EventLogger:
    """The logger of one part, e.g. ``broker.log``; levels are set per part by that name."""
    return EventLogger(logging.getLogger(f"{ROOT}.{name}"))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", None)
    return dict(fields) if isinstance(fields, dict) else {}


def _timestamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03d}Z"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, logger, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: MutableMapping[str, Any] = {
            "ts": _timestamp(record),
            "level": record.levelname,
            "logger": record.name.removeprefix(f"{ROOT}."),
            "event": record.getMessage(),
        }
        line.update(_fields(record))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class HumanFormatter(logging.Formatter):
    """Time, level, event, then key=value pairs."""

    def format(self, record: logging.LogRecord) -> str:
        pairs = " ".join(f"{key}={value}" for key, value in _fields(record).items())
        line = f"{_timestamp(record)} {record.levelname:<7} {record.getMessage()} {pairs}".rstrip()
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure(
    *,
    style: str = "human",
    level: str = "INFO",
    levels: dict[str, str] | None = None,
    to: TextIO | None = None,
) -> None:
    """Send all of Rookery's logging to one stream (standard error unless told), in one style."""
    handler = logging.StreamHandler(to or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else HumanFormatter())
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level)
    for name, own_level in (levels or {}).items():
        logging.getLogger(f"{ROOT}.{name}").setLevel(own_level)
