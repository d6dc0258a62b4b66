"""How the timeline of a cluster is shown."""

from rookery.testing.timeline import RUN_MAX, Entry, text_of


def begun(number: int) -> Entry:
    return Entry(number / 1000, "node-1", f"leadership.begun partition={number}")


def test_every_entry_has_its_line() -> None:
    entries = [begun(0), Entry(0.5, "test", "kill node 1"), *map(begun, range(RUN_MAX + 1))]
    assert text_of(entries).splitlines() == list(map(str, entries))


def test_of_a_long_run_the_ends_are_shown() -> None:
    lines = text_of([*map(begun, range(500)), Entry(0.5, "test", "kill node 1")]).splitlines()
    assert lines[:RUN_MAX] == [str(begun(number)) for number in range(RUN_MAX)]
    assert lines[RUN_MAX:] == [
        f"    0.498 s  node-1   ... {499 - RUN_MAX} more like these",
        str(begun(499)),
        "    0.500 s  test     kill node 1",
    ]
