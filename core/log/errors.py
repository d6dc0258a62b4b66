"""How a log fails. All are `KAFKA_STORAGE_ERROR` to clients; the caller acts on the type."""

import errno

from rookery.core.errors import KafkaStorageError


class LogDirFailed(KafkaStorageError):
    """The device refused a write, a sync or a read: the folder it lies in must go offline, without a retry.

    `disk_full` is the one milder case: space ran out and the file was cut back, so nothing is lost or in
    doubt and a later append may succeed.
    """

    def __init__(self, doing: str, path: str, error: OSError) -> None:
        super().__init__(f"{doing} {path} failed: {error.strerror or error}")
        self.path = path
        self.errno = error.errno
        self.disk_full = error.errno in (errno.ENOSPC, errno.EDQUOT) and error.__cause__ is None


class LogClosed(KafkaStorageError):
    """The log was closed, or its replica taken away: its files are not its own any more and are left alone."""


class LogCorrupt(KafkaStorageError):
    """Bytes that were durable are damaged: set this replica aside and rebuild it from a peer.

    Nothing has been changed on disk.
    """

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {why}; rebuild this replica from a peer")
        self.path = path
        self.position = position
        self.why = why
