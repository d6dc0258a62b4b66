"""What `bench_peers` found, as Markdown and as a picture. Pure: rows in, text out."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import NamedTuple
from xml.sax.saxutils import escape

RATE_GOAL, CPU_GOAL, P99_GOAL, SPIKE_GOAL = 1.2, 0.4, 0.5, 1.3
MISSED = "MISSED"


class Sample(NamedTuple):
    """One load on one peer."""

    rate: float
    """Records a second."""
    cpu_us: float
    """CPU of all its servers, for each record."""
    latencies_us: tuple[int, int, int, int] | None = None
    """p50, p95, p99, p99.9"""


@dataclass(frozen=True, slots=True)
class Row:
    """One load, in rounds in which the peers took turns."""

    title: str
    ours: Sequence[Sample]
    theirs: Sequence[Sample]
    spike: Sequence[Sample] = ()
    record_bytes: int = 100
    cpu_us_max: float | None = None
    """A goal of its own for our CPU."""

    @property
    def is_latency(self) -> bool:
        return self.ours[0].latencies_us is not None

    @property
    def rate_ratio(self) -> float:
        """Of rounds, not of medians: both sides of a round had the same machine."""
        return median(a.rate / b.rate for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def cpu_ratio(self) -> float:
        return median(a.cpu_us / b.cpu_us for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def p99_ratio(self) -> float:
        pairs = zip(self.ours, self.theirs, strict=True)
        return median(a.latencies_us[2] / b.latencies_us[2] for a, b in pairs if a.latencies_us and b.latencies_us)

    @property
    def spike_ratio(self) -> float | None:
        return median(a.cpu_us / b.cpu_us for a, b in zip(self.ours, self.spike, strict=True)) if self.spike else None

    @property
    def goals(self) -> list[tuple[str, bool]]:
        """Each goal of the row and whether it is met."""
        found = [(f"CPU ≤ {CPU_GOAL}x", self.cpu_ratio <= CPU_GOAL)]
        if self.is_latency:
            found.insert(0, (f"p99 ≤ {P99_GOAL}x", self.p99_ratio <= P99_GOAL))
        else:
            found.insert(0, (f"rate ≥ {RATE_GOAL}x", self.rate_ratio >= RATE_GOAL))
        spike = self.spike_ratio
        if spike is not None:
            found.append((f"CPU ≤ {SPIKE_GOAL}x of the spike", spike <= SPIKE_GOAL))
        if self.cpu_us_max is not None:
            used = median(each.cpu_us for each in self.ours)
            found.append((f"CPU ≤ {self.cpu_us_max:g} µs", used <= self.cpu_us_max))
        return found


def markdown(rows: Sequence[Row]) -> str:
    """The tables of docs/performance.md."""
    lines = [
        "| load | Rookery rec/s | Kafka rec/s | rate | Rookery CPU µs/rec | Kafka | CPU | spike | goals |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if not row.is_latency:
            ours, theirs = _middle(row.ours), _middle(row.theirs)
            spike = "" if row.spike_ratio is None else f"{_cpu(_middle(row.spike).cpu_us)}, {row.spike_ratio:.1f}x"
            lines.append(
                f"| {row.title} | {ours.rate:,.0f} | {theirs.rate:,.0f} | **{row.rate_ratio:.2f}x** | "
                f"{_cpu(ours.cpu_us)} | {_cpu(theirs.cpu_us)} | **{row.cpu_ratio:.2f}x** | {spike} | {_goals(row)} |"
            )
    if any(row.is_latency for row in rows):
        lines += [
            "",
            "| latency, p50 / p95 / p99 / p99.9 in ms | Rookery | Kafka | p99 | CPU µs/rec, Rookery / Kafka | goals |",
            "|---|---|---|---|---|---|",
        ]
    for row in rows:
        if row.is_latency:
            ours, theirs = _middle(row.ours), _middle(row.theirs)
            lines.append(
                f"| {row.title} | {_ms(ours)} | {_ms(theirs)} | **{row.p99_ratio:.2f}x** | "
                f"{_cpu(ours.cpu_us)} / {_cpu(theirs.cpu_us)}, {row.cpu_ratio:.2f}x | {_goals(row)} |"
            )
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Part:
    """All loads on one kind of cluster."""

    name: str
    measured: str
    """When, and on which machine."""
    rows: Sequence[Row]
    notes: Sequence[str]
    table: str = ""
    """Where there are no rows."""

    def markdown(self) -> str:
        command = f"`ROOKERY_BENCH_PARTS={self.name} make bench NAMES=peers`: {self.measured}."
        notes = "\n".join(f"- {note}" for note in self.notes)
        body = markdown(self.rows) if self.rows else self.table
        return "\n\n".join(each for each in (command, body, notes) if each)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Part":
        found = json.loads(text)
        rows = [
            Row(**{**row, **{side: [Sample(*each) for each in row[side]] for side in ("ours", "theirs", "spike")}})
            for row in found.pop("rows")
        ]
        return Part(rows=rows, **found)


def missed(rows: Iterable[Row]) -> list[str]:
    return [f"{row.title}: {goal}" for row in rows for goal, met in row.goals if not met]


def _goals(row: Row) -> str:
    return "; ".join(f"{goal} {'met' if met else f'**{MISSED}**'}" for goal, met in row.goals)


def _cpu(us: float) -> str:
    return f"{us:.2f}" if us < 10 else f"{us:.0f}"


def _ms(sample: Sample) -> str:
    return " / ".join(f"{each / 1000:.2f}" for each in sample.latencies_us or ())


def _middle(samples: Sequence[Sample]) -> Sample:
    """The median of each figure."""
    latencies = [each.latencies_us for each in samples if each.latencies_us]
    middle = tuple(int(median(column)) for column in zip(*latencies, strict=True)) if latencies else None
    return Sample(
        median(each.rate for each in samples),
        median(each.cpu_us for each in samples),
        middle,  # type: ignore[arg-type]
    )


# --- the picture --------------------------------------------------------------------------------------------------

WIDTH, LEFT, BAR, GAP, SCALE = 860, 300, 11, 14, 150
_GOOD, _BAD, _TEXT = "#2a7f62", "#c0392b", "#24292f"


def svg(rows: Sequence[Row], title: str) -> str:
    """Two bars a row: rate (or p99) and CPU as multiples of Kafka's; red where a goal is missed."""
    parts: list[str] = []
    y = 60
    for row in rows:
        ours = (
            ("p99", row.p99_ratio, row.p99_ratio <= P99_GOAL)
            if row.is_latency
            else ("rate", row.rate_ratio, row.rate_ratio >= RATE_GOAL)
        )
        parts.append(_label(LEFT - 12, y + BAR, escape(row.title), "end"))
        for name, ratio, met in (ours, ("CPU", row.cpu_ratio, row.cpu_ratio <= CPU_GOAL)):
            length, color = min(ratio * SCALE, WIDTH - LEFT - 110), _GOOD if met else _BAD
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.0f}" height="{BAR}" fill="{color}"/>')
            parts.append(_label(LEFT + length + 6, y + BAR - 1, f"{name} {ratio:.2f}x", "start"))
            y += BAR + 3
        y += GAP
    line = f'<line x1="{LEFT + SCALE}" x2="{LEFT + SCALE}" y1="48" y2="{y}" stroke="{_TEXT}" stroke-dasharray="3 3"/>'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 12}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{y + 12}" fill="white"/>',
        _label(12, 22, escape(title), "start"),
        _label(LEFT + SCALE, 44, "1x: Apache Kafka", "middle"),
        line,
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{_TEXT}">{text}</text>'
