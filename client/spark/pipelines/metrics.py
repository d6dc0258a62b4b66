"""A pipeline's figures at `/metrics`, for Prometheus."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rookery.client.spark.progress import Progress

LABELS = ("pipeline", "query")
PREFIX = "rookery_pipeline_"

Family = CounterMetricFamily | GaugeMetricFamily
FAMILIES: tuple[tuple[str, type[CounterMetricFamily] | type[GaugeMetricFamily], str, str], ...] = (
    ("rows", CounterMetricFamily, "rows", "Rows read since the run began."),
    ("bad_rows", CounterMetricFamily, "bad_rows", "Rows whose value did not parse, since the run began."),
    ("batches", CounterMetricFamily, "batches", "Micro-batches with rows since the run began."),
    ("rows_per_second", GaugeMetricFamily, "rows_per_second", "Rows per second of the last micro-batches."),
    ("behind", GaugeMetricFamily, "lag_records", "Records that are committed and not read yet."),
    ("batch_seconds", GaugeMetricFamily, "batch_duration_seconds", "Time that the last micro-batch took."),
    ("batch", GaugeMetricFamily, "batch_number", "Number of the last micro-batch with rows."),
)
"""What of the progress is published, as what kind of metric, and its name."""


class PipelineMetrics(Collector):
    """The progress of each query, as it was reported last."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._progress: Mapping[str, Progress] = {}

    def report(self, progress: Progress) -> None:
        self._progress = {**self._progress, progress.query: progress}

    def collect(self) -> Iterator[Family]:
        for key, kind, name, text in FAMILIES:
            family = kind(PREFIX + name, text, labels=LABELS)
            for progress in self._progress.values():
                value = getattr(progress, key)
                if value is not None:
                    family.add_metric((self._pipeline, progress.query), value)
            yield family


@contextmanager
def served(metrics: PipelineMetrics, host: str, port: int) -> Iterator[int]:
    """Serve them while the pipeline runs; gives the port, chosen by the system if it was 0."""
    registry = CollectorRegistry()
    registry.register(metrics)
    server, thread = start_http_server(port, host, registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
