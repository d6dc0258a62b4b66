"""Markers name only rows and invariants that the pages list."""

from tests.rows import declared, markers, report


def test_all_rows_and_invariants_are_listed_once() -> None:
    rows, invariants = declared("row"), declared("invariant")
    assert rows == [str(number) for number in range(1, 187)]
    assert len(invariants) == len(set(invariants)) == 92
    assert declared("attack") == [str(number) for number in range(1, 66)]


def test_every_attack_is_tried() -> None:
    assert set(declared("attack")) - {number for _, number in markers("attack")} == set()


def test_markers_name_listed_ids() -> None:
    for kind in ("row", "invariant", "attack"):
        known = set(declared(kind))
        assert [(path.name, value) for path, value in markers(kind) if value not in known] == []


def test_the_report_counts_and_names_what_is_missing() -> None:
    result = {
        "row": {"shown": ["34", "35"], "failed": ["36"]},
        "invariant": {"shown": declared("invariant"), "failed": []},
    }
    text = report(result)
    assert "2 of 186 product rows have a passing test" in text
    assert "failing: 36" in text
    assert "92 of 92 invariants have a passing test\n  without one: none" in text
    assert "0 of 65 attacks have a passing test" in text
