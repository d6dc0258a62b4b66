"""How a log fails. All are `KAFKA_STORAGE_ERROR` to clients; the caller acts on the type."""

from rookery.core.errors import KafkaStorageError


class LogDirFailed(KafkaStorageError):
    """The device refused a write, a sync or a read: the folder it lies in must go offline, without a retry.

    `disk_full` says that space ran out and the file was cut back cleanly, so nothing is lost or unknown.
    """

    def __init__(self, doing: str, path: str, error: OSError) -> None:
        super().__init__(f"{doing} {path} failed: {error.strerror or error}; the log folder is not trusted any more")
        self.path = path
        self.errno = error.errno
        self.disk_full = False


class LogCorrupt(KafkaStorageError):
    """Bytes that were durable are damaged: set this replica aside and rebuild it from a peer.

    Nothing has been changed on disk.
    """

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {why}; rebuild this replica from another one")
        self.path = path
        self.position = position
        self.why = why
