"""The data source `rookery` as PySpark sees it. Options are checked here, on the driver, before any task runs."""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from rookery.client.spark import schema as columns
from rookery.client.spark.option_values import OptionError
from rookery.client.spark.options import includes_headers, source_options
from rookery.client.spark.reader import RookeryReader
from rookery.client.spark.sink_options import sink_options
from rookery.client.spark.stream import RookeryStreamReader
from rookery.client.spark.writer import RookeryStreamWriter, RookeryWriter


class RookeryDataSource(DataSource):
    """Topics of a cluster, with the options and columns of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "rookery"

    def schema(self) -> str:
        return columns.ddl(columns.names(includes_headers(self.options)))

    def reader(self, schema: StructType) -> RookeryReader:
        return RookeryReader(source_options(self.options, streaming=False), self._columns(schema))

    def streamReader(self, schema: StructType) -> RookeryStreamReader:
        return RookeryStreamReader(source_options(self.options, streaming=True), self._columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> RookeryWriter:
        if overwrite:
            raise OptionError("a topic is only appended to: use mode('append')")
        return RookeryWriter(sink_options(self.options, _types(schema)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> RookeryStreamWriter:
        """`overwrite` comes with output mode complete: every result is written whole, one behind the other."""
        return RookeryStreamWriter(sink_options(self.options, _types(schema)))

    def _columns(self, schema: StructType) -> tuple[str, ...]:
        return columns.wanted(_types(schema), includes_headers(self.options))


def _types(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
