from rookery.proto import metadata_pb2 as _metadata_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Caller(_message.Message):
    __slots__ = ("cluster_id", "version", "node_id", "directory_id", "to_id")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    TO_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    version: int
    node_id: int
    directory_id: bytes
    to_id: int
    def __init__(self, cluster_id: _Optional[str] = ..., version: _Optional[int] = ..., node_id: _Optional[int] = ..., directory_id: _Optional[bytes] = ..., to_id: _Optional[int] = ...) -> None: ...

class Leader(_message.Message):
    __slots__ = ("id", "epoch", "endpoint", "reported_by")
    ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    REPORTED_BY_FIELD_NUMBER: _ClassVar[int]
    id: int
    epoch: int
    endpoint: str
    reported_by: int
    def __init__(self, id: _Optional[int] = ..., epoch: _Optional[int] = ..., endpoint: _Optional[str] = ..., reported_by: _Optional[int] = ...) -> None: ...

class LogPosition(_message.Message):
    __slots__ = ("offset", "epoch")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    offset: int
    epoch: int
    def __init__(self, offset: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Voter(_message.Message):
    __slots__ = ("id", "directory_id", "endpoint")
    ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    id: int
    directory_id: bytes
    endpoint: str
    def __init__(self, id: _Optional[int] = ..., directory_id: _Optional[bytes] = ..., endpoint: _Optional[str] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("caller", "epoch", "log_end", "pre_vote", "voter_directory_id")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_FIELD_NUMBER: _ClassVar[int]
    VOTER_DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    epoch: int
    log_end: LogPosition
    pre_vote: bool
    voter_directory_id: bytes
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., epoch: _Optional[int] = ..., log_end: _Optional[_Union[LogPosition, _Mapping]] = ..., pre_vote: _Optional[bool] = ..., voter_directory_id: _Optional[bytes] = ...) -> None: ...

class VoteResponse(_message.Message):
    __slots__ = ("error", "leader", "granted", "directory_id")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    error: int
    leader: Leader
    granted: bool
    directory_id: bytes
    def __init__(self, error: _Optional[int] = ..., leader: _Optional[_Union[Leader, _Mapping]] = ..., granted: _Optional[bool] = ..., directory_id: _Optional[bytes] = ...) -> None: ...

class BeginEpochRequest(_message.Message):
    __slots__ = ("caller", "epoch", "leader_endpoint", "voter_directory_id")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    VOTER_DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    epoch: int
    leader_endpoint: str
    voter_directory_id: bytes
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., epoch: _Optional[int] = ..., leader_endpoint: _Optional[str] = ..., voter_directory_id: _Optional[bytes] = ...) -> None: ...

class BeginEpochResponse(_message.Message):
    __slots__ = ("error", "leader")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    error: int
    leader: Leader
    def __init__(self, error: _Optional[int] = ..., leader: _Optional[_Union[Leader, _Mapping]] = ...) -> None: ...

class EndEpochRequest(_message.Message):
    __slots__ = ("caller", "epoch", "preferred_successors")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_SUCCESSORS_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    epoch: int
    preferred_successors: _containers.RepeatedCompositeFieldContainer[Voter]
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., epoch: _Optional[int] = ..., preferred_successors: _Optional[_Iterable[_Union[Voter, _Mapping]]] = ...) -> None: ...

class EndEpochResponse(_message.Message):
    __slots__ = ("error", "leader")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    error: int
    leader: Leader
    def __init__(self, error: _Optional[int] = ..., leader: _Optional[_Union[Leader, _Mapping]] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("caller", "epoch", "log_end", "high_watermark", "max_wait_ms", "max_bytes", "in_memory", "features")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    IN_MEMORY_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    epoch: int
    log_end: LogPosition
    high_watermark: int
    max_wait_ms: int
    max_bytes: int
    in_memory: bool
    features: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.FeatureRange]
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., epoch: _Optional[int] = ..., log_end: _Optional[_Union[LogPosition, _Mapping]] = ..., high_watermark: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., max_bytes: _Optional[int] = ..., in_memory: _Optional[bool] = ..., features: _Optional[_Iterable[_Union[_metadata_pb2.FeatureRange, _Mapping]]] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("error", "leader", "high_watermark", "log_start_offset", "diverging", "snapshot", "records")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DIVERGING_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    error: int
    leader: Leader
    high_watermark: int
    log_start_offset: int
    diverging: LogPosition
    snapshot: LogPosition
    records: bytes
    def __init__(self, error: _Optional[int] = ..., leader: _Optional[_Union[Leader, _Mapping]] = ..., high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., diverging: _Optional[_Union[LogPosition, _Mapping]] = ..., snapshot: _Optional[_Union[LogPosition, _Mapping]] = ..., records: _Optional[bytes] = ...) -> None: ...

class FetchSnapshotRequest(_message.Message):
    __slots__ = ("caller", "epoch", "snapshot", "position")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    epoch: int
    snapshot: LogPosition
    position: int
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., epoch: _Optional[int] = ..., snapshot: _Optional[_Union[LogPosition, _Mapping]] = ..., position: _Optional[int] = ...) -> None: ...

class SnapshotChunk(_message.Message):
    __slots__ = ("error", "leader", "snapshot", "size", "position", "data")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    error: int
    leader: Leader
    snapshot: LogPosition
    size: int
    position: int
    data: bytes
    def __init__(self, error: _Optional[int] = ..., leader: _Optional[_Union[Leader, _Mapping]] = ..., snapshot: _Optional[_Union[LogPosition, _Mapping]] = ..., size: _Optional[int] = ..., position: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class AddVoterRequest(_message.Message):
    __slots__ = ("caller", "voter", "timeout_ms")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    VOTER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    voter: Voter
    timeout_ms: int
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., voter: _Optional[_Union[Voter, _Mapping]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class RemoveVoterRequest(_message.Message):
    __slots__ = ("caller", "voter_id", "voter_directory_id", "timeout_ms")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    VOTER_ID_FIELD_NUMBER: _ClassVar[int]
    VOTER_DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    voter_id: int
    voter_directory_id: bytes
    timeout_ms: int
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., voter_id: _Optional[int] = ..., voter_directory_id: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ChangeVotersResponse(_message.Message):
    __slots__ = ("error", "message", "leader")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    leader: Leader
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., leader: _Optional[_Union[Leader, _Mapping]] = ...) -> None: ...

class DescribeQuorumRequest(_message.Message):
    __slots__ = ("caller",)
    CALLER_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ...) -> None: ...

class DescribeQuorumResponse(_message.Message):
    __slots__ = ("error", "leader", "high_watermark", "voters", "observers", "cluster_id", "min_version", "max_version")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    OBSERVERS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_VERSION_FIELD_NUMBER: _ClassVar[int]
    error: int
    leader: Leader
    high_watermark: int
    voters: _containers.RepeatedCompositeFieldContainer[Replica]
    observers: _containers.RepeatedCompositeFieldContainer[Replica]
    cluster_id: str
    min_version: int
    max_version: int
    def __init__(self, error: _Optional[int] = ..., leader: _Optional[_Union[Leader, _Mapping]] = ..., high_watermark: _Optional[int] = ..., voters: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., observers: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., cluster_id: _Optional[str] = ..., min_version: _Optional[int] = ..., max_version: _Optional[int] = ...) -> None: ...

class Replica(_message.Message):
    __slots__ = ("id", "directory_id", "endpoint", "log_end_offset", "last_fetch_ms", "last_caught_up_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_FETCH_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_CAUGHT_UP_MS_FIELD_NUMBER: _ClassVar[int]
    id: int
    directory_id: bytes
    endpoint: str
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    def __init__(self, id: _Optional[int] = ..., directory_id: _Optional[bytes] = ..., endpoint: _Optional[str] = ..., log_end_offset: _Optional[int] = ..., last_fetch_ms: _Optional[int] = ..., last_caught_up_ms: _Optional[int] = ...) -> None: ...

class LeaderChangeRecord(_message.Message):
    __slots__ = ("leader_id", "voters")
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    leader_id: int
    voters: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, leader_id: _Optional[int] = ..., voters: _Optional[_Iterable[int]] = ...) -> None: ...

class VotersRecord(_message.Message):
    __slots__ = ("voters",)
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    voters: _containers.RepeatedCompositeFieldContainer[Voter]
    def __init__(self, voters: _Optional[_Iterable[_Union[Voter, _Mapping]]] = ...) -> None: ...

class SnapshotHeaderRecord(_message.Message):
    __slots__ = ("written_ms",)
    WRITTEN_MS_FIELD_NUMBER: _ClassVar[int]
    written_ms: int
    def __init__(self, written_ms: _Optional[int] = ...) -> None: ...

class SnapshotFooterRecord(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: int
    def __init__(self, records: _Optional[int] = ...) -> None: ...
