"""Spark at a secure cluster: the options of `client.properties`, each with ``kafka.`` before it, are all it takes."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from rookery.client.local import launcher
from rookery.core.config.properties import read_properties
from tests import needs
from tests.spark.topics import numbers

pytestmark = [pytest.mark.timeout(600), pytest.mark.row(173)]
"""The first test of a run also starts Java and the cluster."""

TOPIC, COPY, COUNT = "secured", "secured-copy", 100
SESSION_MS = "2000"
AT_ONCE_S = 30.0
KINDS = ("rookery", "kafka")
REASON = "rookery.core.errors.SaslAuthenticationFailedError: SASL_AUTHENTICATION_FAILED"
FAILED = "invalid credentials with SASL mechanism SCRAM-SHA-512"


@pytest.fixture(scope="module")
def options(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Of a cluster in which every topic is written and read with them only, and whose sessions are short."""
    needs.command("mvn", "it fetches Spark's own Kafka connector")
    folder = Path(tempfile.mkdtemp(prefix="rookery-spark-secured-"))
    try:
        own = {"connections.max.reauth.ms": SESSION_MS, "num.partitions": "2"}
        launcher.bring_up(launcher.UpRequest(folder, 1, 0, own, False, secure=True), print)
        found = read_properties((folder / "client.properties").read_text())
        yield {f"kafka.{key}": value for key, value in found.items()}
    finally:
        launcher.bring_down(folder, print)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def topic(spark: SparkSession, options: dict[str, str]) -> None:
    written(spark, "rookery", options, TOPIC)


def written(spark: SparkSession, kind: str, options: dict[str, str], topic: str) -> None:
    rows = spark.range(COUNT).selectExpr("cast(id as string) as value")
    rows.write.format(kind).options(**options, topic=topic).mode("append").save()


def read(spark: SparkSession, kind: str, options: dict[str, str], topic: str = TOPIC) -> DataFrame:
    return spark.read.format(kind).options(**options, subscribe=topic).load()


@pytest.mark.parametrize("writer", KINDS)
def test_what_one_writes_both_read(spark: SparkSession, options: dict[str, str], writer: str) -> None:
    written(spark, writer, options, f"secured-by-{writer}")
    for kind in KINDS:
        assert numbers(read(spark, kind, options, f"secured-by-{writer}")) == list(range(COUNT))


def test_a_stream_in_and_out_with_exactly_once(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    """One row after the other takes longer than a session: driver and workers log in again."""
    rows = spark.readStream.format("rookery").options(
        **options, subscribe=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger="20"
    )
    begun = monotonic()
    writer = rows.load().select("value").writeStream.format("rookery")
    writer = writer.options(**options, topic=COPY, exactly_once="true", checkpointLocation=str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert monotonic() - begun > int(SESSION_MS) / 1000
    committed = {**options, "kafka.isolation.level": "read_committed"}
    assert numbers(read(spark, "rookery", committed, COPY)) == list(range(COUNT))


def wrong(options: dict[str, str]) -> dict[str, str]:
    login = options["kafka.sasl.jaas.config"]
    before, _, password = login.rpartition("password=")
    assert before, login
    return {**options, "kafka.sasl.jaas.config": f'{before}password="not-{password.strip(chr(34) + ";")}";'}


def secret(options: dict[str, str]) -> str:
    return options["kafka.sasl.jaas.config"].rpartition("password=")[2].strip('";')


def check(error: str, options: dict[str, str]) -> None:
    """One line says who refused and why; nowhere is a password."""
    line = f"{REASON}: {options['kafka.bootstrap.servers']}: Authentication failed: {FAILED}"
    assert line in error.splitlines()
    assert secret(options) not in error


def test_a_wrong_password_is_one_line_at_once(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    begun = monotonic()
    with pytest.raises(PySparkException) as reading:
        read(spark, "rookery", wrong(options)).collect()
    with pytest.raises(PySparkException) as writing:
        written(spark, "rookery", wrong(options), TOPIC)
    rows = spark.readStream.format("rookery").options(**wrong(options), subscribe=TOPIC).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException) as streaming:
        query.awaitTermination(120)
    assert monotonic() - begun < AT_ONCE_S
    for error in (reading, writing, streaming):
        check(str(error.value), options)
    assert numbers(read(spark, "rookery", options)) == list(range(COUNT))
