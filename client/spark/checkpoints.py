"""Checkpoints and outputs on any file system that Spark knows: what is in them, and whether they belong together."""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


class OtherCheckpointError(Exception):
    """The output was written with a checkpoint that is not this one."""


class Folder:
    """A folder, local or of a store such as HDFS or S3."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        context: Any = spark.sparkContext
        self._context = context
        self._jvm = context._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._path.getFileSystem(context._jsc.hadoopConfiguration())

    def _child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def names(self) -> list[str]:
        """Of the files and folders in it; none if there is no such folder."""
        if not self._files.exists(self._path):
            return []
        return sorted(each.getPath().getName() for each in self._files.listStatus(self._path))

    def newest(self) -> int:
        """The highest number among the files of one of Spark's logs; -1 if there are none."""
        numbers = [name.removesuffix(".compact") for name in self.names()]
        return max((int(name) for name in numbers if name.isdigit()), default=-1)

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self._child(name)))

    def read(self, name: str) -> str | None:
        """The text of a small file; None if it is not there."""
        if not self.has(name):
            return None
        stream = self._files.open(self._child(name))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Replace a small file as a whole: it is written beside and renamed, so that a crash leaves the old or the new
        one."""
        beside, place = self._child(f".{name}.new"), self._child(name)
        stream = self._files.create(beside, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        try:
            self._rename_over(beside, place)
        except Py4JJavaError:  # a store that offers no such rename
            self._files.delete(place, False)
            if not self._files.rename(beside, place):
                raise OSError(f"{place} cannot be written") from None

    def _rename_over(self, beside: Any, place: Any) -> None:
        """In one step, as `rename` of a FileSystem does not."""
        hadoop = self._jvm.org.apache.hadoop.fs
        kinds = getattr(hadoop, "Options$Rename")
        how = self._context._gateway.new_array(kinds, 1)
        how[0] = kinds.OVERWRITE
        files = hadoop.FileContext.getFileContext(self._files.getUri(), self._context._jsc.hadoopConfiguration())
        files.rename(beside, place, how)

    def remove(self, name: str) -> None:
        self._files.delete(self._child(name), True)


def check_same(spark: SparkSession, output: str, written: int, checkpoint: str) -> None:
    """Outputs know batches by their number and skip those they have. With a new checkpoint, or one that is older than
    the output, batches would be left out silently."""
    planned = Folder(spark, f"{checkpoint}/offsets").newest()
    if written > planned:
        raise OtherCheckpointError(
            f"{output} holds batches up to {written}, the checkpoint {checkpoint} "
            f"{'has none yet' if planned < 0 else f'knows them up to {planned}'}: records would be left out. "
            "Give the checkpoint that the files were written with, or write to another folder"
        )


def check_files(spark: SparkSession, output: str, checkpoint: str) -> None:
    """The same for the log of Spark's file sink."""
    check_same(spark, output, Folder(spark, f"{output}/_spark_metadata").newest(), checkpoint)
