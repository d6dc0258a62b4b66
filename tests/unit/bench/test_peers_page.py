"""The tables of docs/performance.md: ratios are those of rounds, and a missed goal is never shown as met."""

from xml.etree import ElementTree

import pytest

from tests.bench.peers_page import MISSED, Part, Row, Sample, markdown, missed, svg

FAST = Row("fast", [Sample(300, 1.0), Sample(30, 1.0)], [Sample(100, 10.0), Sample(20, 5.0)])
SLOW = Row("slow & late", [Sample(110, 4.5)], [Sample(100, 10.0)], [Sample(200, 3.0)], cpu_us_max=4.0)
LATE = Row("latency", [Sample(1, 1.0, (1, 2, 600, 4))], [Sample(1, 4.0, (10, 20, 1000, 40))])


def test_ratios_are_medians_of_rounds() -> None:
    """Both sides of a round had the same machine; medians of each side would compare different moments."""
    assert FAST.rate_ratio == pytest.approx((3.0 + 1.5) / 2)
    assert FAST.cpu_ratio == pytest.approx((0.1 + 0.2) / 2)
    assert missed([FAST]) == []


def test_each_missed_goal_is_named() -> None:
    assert missed([SLOW]) == [
        "slow & late: rate ≥ 1.2x",
        "slow & late: CPU ≤ 0.4x",
        "slow & late: CPU ≤ 1.3x of the spike",
        "slow & late: CPU ≤ 4 µs",
    ]
    assert missed([LATE]) == ["latency: p99 ≤ 0.5x"]


def test_the_tables_show_them() -> None:
    rates, latencies = markdown([FAST, SLOW, LATE]).split("\n\n")
    fast, slow = rates.splitlines()[2:]
    assert MISSED not in fast
    assert slow.count(MISSED) == 4
    assert "**1.10x**" in slow
    assert latencies.splitlines()[2].startswith("| latency | 0.00 / 0.00 / 0.60 / 0.00 |")


def test_the_picture_is_one_and_shows_missed_goals_in_red() -> None:
    drawn = ElementTree.fromstring(svg([FAST, SLOW, LATE], "a & b"))
    bars = [each.get("fill") for each in drawn.iter() if each.tag.endswith("rect") and each.get("x")]
    assert [color == "#c0392b" for color in bars] == [False, False, True, True, True, False]


def test_parts_can_be_put_aside_and_shown_later() -> None:
    part = Part("one", "today", [FAST, SLOW, LATE], ["a note"])
    again = Part.from_json(part.to_json())
    assert again.markdown() == part.markdown()
    assert missed(again.rows) == missed(part.rows)
    assert "today" in part.markdown()
    assert part.markdown().endswith("- a note")
