"""From Spark's reports to rows, rate, lag and time left."""

from typing import Any

from rookery.client.spark.progress import Batch, Meter, Progress, batch_of, describe, duration


def source(end: int, latest: Any) -> dict[str, Any]:
    return {"endOffset": f'{{"t": {{"0": {end}}}}}', "latestOffset": latest}


def test_a_report_of_spark() -> None:
    report = {
        "batchId": 3,
        "numInputRows": 10,
        "batchDuration": 2500,
        "sources": [source(10, '{"t": {"0": 12}}'), source(5, {"t": {"0": 6, "1": 7}})],
        "observedMetrics": {"a": {"rows": 6, "bad": 2}, "b": {"rows": 4, "bad": None}},
    }
    assert batch_of(report) == Batch(3, 10, 2.5, behind=2 + 8, bad=2)
    report["sources"] = [source(10, '{"t": {"0": 12}}'), source(5, None)]
    assert batch_of(report).behind is None, "of one source it is not known"


def test_totals_rate_and_time_left() -> None:
    meter = Meter("rows")
    assert meter.add(Batch(0, 100, 2.0, behind=300, bad=1))
    assert meter.add(Batch(1, 300, 2.0, behind=200, bad=2))
    assert not meter.add(Batch(1, 300, 2.0, behind=200)), "reported before"
    assert not meter.add(Batch(2, 0, 0.1, behind=400)), "no rows came, but the lag grew"
    assert meter.progress == Progress("rows", 2, 1, 400, 3, 100.0, 400, 4.0, 300, 2.0)
    assert describe(meter.progress) == (
        "batch 1: 300 rows in 2.0 s, 100 rows/s, 400 behind, about 4 s left, 3 bad rows so far"
    )


def test_only_recent_batches_make_the_rate() -> None:
    meter = Meter("rows")
    for number in range(20):
        meter.add(Batch(number, 10 if number < 10 else 1000, 1.0))
    assert meter.progress.rows_per_second == 1000
    assert describe(meter.progress) == "batch 19: 1,000 rows in 1.0 s, 1,000 rows/s"


def test_times_for_people() -> None:
    assert [duration(seconds) for seconds in (0.2, 59, 61, 3700)] == ["1 s", "59 s", "1 min 1 s", "1 h 1 min"]
