"""How far a query is: from what Spark reports of its micro-batches to rows, rate, lag and time left. No clock here."""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rookery.client.spark.offsets import count, from_json
from rookery.client.spark.places import Offsets

RECENT = 10
"""The rate is that of so many batches."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch, or a report of a query that waits for rows."""

    number: int
    rows: int
    seconds: float
    behind: int | None = None
    """Records that are committed and not read yet; unknown for a retried batch."""
    bad: int = 0


def batch_of(progress: Mapping[str, Any]) -> Batch:
    """A micro-batch as Spark's progress describes it."""
    lags = [_behind(source) for source in progress["sources"]]
    known = [lag for lag in lags if lag is not None]
    observed = progress.get("observedMetrics") or {}
    return Batch(
        number=progress["batchId"],
        rows=progress["numInputRows"],
        seconds=progress["batchDuration"] / 1000,
        behind=sum(known) if known and len(known) == len(lags) else None,
        bad=sum(_bad(row) for row in observed.values()),
    )


def _behind(source: Mapping[str, Any]) -> int | None:
    end, latest = (_offsets(source[name]) for name in ("endOffset", "latestOffset"))
    return count(end, latest) if latest else None


def _offsets(value: Any) -> Offsets:
    """Spark reports offsets as JSON, parsed or not, or as None."""
    return from_json((json.loads(value) if isinstance(value, str) else value) or {})


def _bad(row: Any) -> int:
    values = row.asDict() if hasattr(row, "asDict") else row
    return int(values.get("bad") or 0)


@dataclass(frozen=True, slots=True)
class Progress:
    """Of a query, since its run began."""

    query: str
    batches: int = 0
    batch: int = -1
    rows: int = 0
    bad_rows: int = 0
    rows_per_second: float = 0.0
    behind: int | None = None
    seconds_left: float | None = None
    batch_rows: int = 0
    batch_seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Meter:
    """Adds up the micro-batches of one query."""

    def __init__(self, query: str) -> None:
        self.progress = Progress(query)
        self._recent: deque[Batch] = deque(maxlen=RECENT)

    def add(self, batch: Batch) -> bool:
        """Whether rows came. Spark reports one batch several times while it waits for the next."""
        last = self.progress
        if batch.number <= last.batch or not batch.rows:
            behind = last.behind if batch.behind is None else batch.behind
            self.progress = self._with(last, behind=behind, seconds_left=self._left(behind))
            return False
        self._recent.append(batch)
        self.progress = self._with(
            last,
            batches=last.batches + 1,
            batch=batch.number,
            rows=last.rows + batch.rows,
            bad_rows=last.bad_rows + batch.bad,
            rows_per_second=self._rate(),
            behind=batch.behind,
            seconds_left=self._left(batch.behind),
            batch_rows=batch.rows,
            batch_seconds=batch.seconds,
        )
        return True

    @staticmethod
    def _with(last: Progress, **values: Any) -> Progress:
        return Progress(**{**asdict(last), **values})

    def _rate(self) -> float:
        seconds = sum(each.seconds for each in self._recent)
        return sum(each.rows for each in self._recent) / seconds if seconds else 0.0

    def _left(self, behind: int | None) -> float | None:
        rate = self._rate()
        return behind / rate if behind is not None and rate else None


def describe(progress: Progress) -> str:
    """One line for a person."""
    parts = [
        f"batch {progress.batch}: {progress.batch_rows:,} rows in {progress.batch_seconds:.1f} s",
        f"{progress.rows_per_second:,.0f} rows/s",
    ]
    if progress.behind is not None:
        parts.append(f"{progress.behind:,} behind")
    if progress.behind and progress.seconds_left is not None:
        parts.append(f"about {duration(progress.seconds_left)} left")
    if progress.bad_rows:
        parts.append(f"{progress.bad_rows:,} bad rows so far")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Two units at most: 12 s, 3 min 20 s, 2 h 5 min."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
