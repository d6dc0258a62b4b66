"""Structured logging: a stable event name plus fields, as JSON lines or for people.

    log = get_logger("broker.replication")
    log.info("isr.shrink", topic="orders", partition=0, isr=[1, 2])

Event names are part of the product: tests, dashboards and users search for them.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
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


class SparingLogger:
    """For lines that unauthenticated clients can cause: each event has a burst of lines and then one a second, for each
    listener. A line says in `others_before` how many had none. All are counted."""

    BURST = 10

    def __init__(self, logger: EventLogger, clock: Callable[[], float]) -> None:
        """`clock` never jumps, and counts in seconds."""
        self._logger = logger
        self._clock = clock
        self._lines: dict[tuple[str, str], _Lines] = {}

    def warning(self, event: str, *, listener: str, **fields: object) -> None:
        now = self._clock()
        lines = self._lines.get((event, listener))
        if lines is None:
            lines = self._lines[event, listener] = _Lines(float(self.BURST), now)
        lines.count += 1
        lines.left = min(float(self.BURST), lines.left + max(0.0, now - lines.at))
        lines.at = now
        if lines.left < 1.0:
            lines.unlogged += 1
            return
        lines.left -= 1.0
        if lines.unlogged:
            fields["others_before"], lines.unlogged = lines.unlogged, 0
        self._logger.warning(event, listener=listener, **fields)

    def counts(self, event: str) -> dict[str, int]:
        """How often it happened, by listener."""
        return {listener: lines.count for (name, listener), lines in self._lines.items() if name == event}


@dataclass(slots=True)
class _Lines:
    left: float
    at: float
    unlogged: int = 0
    count: int = 0


def fields_of(record: logging.LogRecord) -> dict[str, object]:
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
        line.update(fields_of(record))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class HumanFormatter(logging.Formatter):
    """Time, level, event, then key=value pairs."""

    def format(self, record: logging.LogRecord) -> str:
        pairs = " ".join(f"{key}={value}" for key, value in fields_of(record).items())
        line = f"{_timestamp(record)} {record.levelname:<7} {record.getMessage()} {pairs}".rstrip()
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _Shown(logging.Filter):
    """What the stream shows of events that loggers let through for the recorder's sake."""

    def __init__(self, level: str, levels: Mapping[str, str]) -> None:
        super().__init__()
        self._levels = {f"{ROOT}.{name}": _number(own) for name, own in levels.items()}
        self._levels.setdefault(ROOT, _number(level))

    def filter(self, record: logging.LogRecord) -> bool:
        name = record.name
        while name not in self._levels and name:
            name = name.rpartition(".")[0]
        return record.levelno >= self._levels.get(name, logging.NOTSET)


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level]


def configure(
    *,
    style: str = "human",
    level: str = "INFO",
    levels: Mapping[str, str] | None = None,
    to: TextIO | None = None,
    recorder: logging.Handler | None = None,
) -> None:
    """Send all of Rookery's logging to one stream (by default standard error), in one style. A recorder gets the events
    from INFO on, whatever the stream shows."""
    handler = logging.StreamHandler(to or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else HumanFormatter())
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    root.propagate = False
    at_most = logging.CRITICAL
    if recorder is not None:
        at_most = logging.INFO
        handler.addFilter(_Shown(level, levels or {}))
        root.addHandler(recorder)
    root.setLevel(min(_number(level), at_most))
    for name, own_level in (levels or {}).items():
        logging.getLogger(f"{ROOT}.{name}").setLevel(min(_number(own_level), at_most))
