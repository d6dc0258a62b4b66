"""Making a log durable, in three steps: decide on the loop, sync in a thread, record the result on the loop."""

from dataclasses import dataclass, field

from rookery.core.disk import Disk, File, replace_file
from rookery.core.log.errors import LogDirFailed
from rookery.core.log.segment import IndexWrite, Segment


@dataclass(slots=True)
class FlushJob:
    """Everything that must reach the device before `up_to` may become the recovery point.

    `run` touches nothing but what is listed here, with descriptors of its own, so it may run beside whatever
    happens to the log meanwhile.
    """

    disk: Disk
    folder: str
    up_to: int
    truncations: int
    files: list[tuple[str, File]] = field(default_factory=list)
    sealed: list[Segment] = field(default_factory=list)
    indexes: list[IndexWrite] = field(default_factory=list)
    epochs: tuple[str, bytes] | None = None
    names_changed: bool = False

    def add(self, segment: Segment) -> None:
        """Sync this segment too. After a failure the job holds no descriptor."""
        try:
            self.files.append((segment.log_path, segment.file.dup()))
        except OSError as error:
            self.close()
            raise LogDirFailed("opening", segment.log_path, error) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for _, file in self.files:
            file.close()

    def run(self) -> None:
        """Blocks. The first error ends it: what a failed sync left behind is unknown, so nothing is retried."""
        path = self.folder
        try:
            for log_path, file in self.files:
                path = log_path
                file.sync()
            for write in self.indexes:
                path = write.path
                write.run(self.disk, sync=True)
            if self.epochs is not None:
                path = self.epochs[0]
                replace_file(self.disk, *self.epochs)
            if self.names_changed:
                path = self.folder
                self.disk.sync_dir(self.folder)
        except OSError as error:
            raise LogDirFailed("syncing", path, error) from error
        finally:
            self.close()
