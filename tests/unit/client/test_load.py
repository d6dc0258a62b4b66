"""Figures of a load."""

from rookery.client.load import COLUMNS, Measured, percentile, ratio, values_of


def test_percentiles_are_values_that_occurred() -> None:
    ordered = [float(n) for n in range(1, 101)]
    assert [percentile(ordered, p) for p in (50, 95, 99, 100)] == [50.0, 95.0, 99.0, 100.0]
    assert percentile([7.0], 50) == 7.0
    assert percentile([], 99) == "-"


def test_a_row_has_rate_and_size() -> None:
    row = Measured("produce", 1000, 2_000_000, 2.0, [1.0, 3.0]).row()
    assert (row["records/s"], row["MB/s"], row["p50-ms"], row["max-ms"]) == (500, 1.0, 1.0, 3.0)
    assert tuple(row) == COLUMNS


def test_values_have_the_size_asked_for() -> None:
    for size in (1, 10, 1000):
        assert {len(value) for value in values_of(size, True) + values_of(size, False)} == {size}
    assert len(set(values_of(1000, True))) == len(values_of(1000, True))


def test_the_ratio_of_values_to_what_is_stored() -> None:
    assert ratio(1000, 400) == 2.5
    assert ratio(1000, -1) == ratio(1000, 0) == "-"
