"""The errors of Raft.

`RaftRefusedError` answers a caller whose request cannot be granted now; `NotServingError` one that came too early or
too late; `RaftFatalError` means that going on could lose committed records or fork the log: the node must stop.
"""


class RaftRefusedError(Exception):
    """The request cannot be granted; nothing has changed."""

    retriable = True


class NotLeaderError(RaftRefusedError):
    """This replica does not lead that epoch (any more)."""

    def __init__(self, message: str, leader_id: int, epoch: int) -> None:
        super().__init__(message)
        self.leader_id = leader_id
        self.epoch = epoch


class NotReadyError(RaftRefusedError):
    """The leader must first commit a record of its own epoch, or an earlier voter change, or is handing
    over."""


class NotCaughtUpError(RaftRefusedError):
    """The replica that should vote does not fetch, or is too far behind."""


class InvalidVoterChangeError(RaftRefusedError):
    """The change makes no sense for the voter set in force."""

    retriable = False


class NotServingError(Exception):
    """The node is starting or stopping."""


class RaftFatalError(Exception):
    """An invariant of Raft does not hold on this node. Stop it and keep its disk for examination."""


class TruncationBelowHighWatermarkError(RaftFatalError):
    """The leader's log disagrees with records this replica knows to be committed."""


class TwoLeadersError(RaftFatalError):
    """Two nodes claim to lead one epoch."""


class CorruptStateError(RaftFatalError):
    """What was read from disk, or what the driver reported, contradicts itself."""


class MetadataDamagedError(CorruptStateError):
    """What lies in the folder of the metadata log cannot be used: it is damaged, or part of it is missing."""

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(
            f"{why}. This node does not run on {folder} as it is. While a majority of the other voters is healthy, "
            "rebuild it from them: remove its vote (`rookery quorum status` shows ID and "
            f"DIRECTORY, `rookery quorum remove-voter ID DIRECTORY` removes it), move {folder} away, start the node, "
            "give it a vote again (`rookery quorum add-voter ID DIRECTORY HOST:PORT`). Without such a majority bring "
            "the folder back from a backup of this node."
        )
