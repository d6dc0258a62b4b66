"""Brokers: registration, heartbeats, fencing and controlled shutdown.

A broker's epoch is the offset of its registration. A registration fences: until the broker has caught up with
the log and asks to be unfenced, it leads nothing and is in sync with nothing. Whatever takes a broker out of
service takes it out of all ISRs in the same batch.
"""

from dataclasses import dataclass

from rookery.controller.state.decision import Decision, decided, replayed
from rookery.controller.state.defaults import Defaults
from rookery.controller.state.directories import lost_directory, offline_directories
from rookery.controller.state.features import check_supported
from rookery.controller.state.partitions import NOTHING, Electorate, Wanted
from rookery.core.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRegistrationError,
    InvalidRequestError,
    StaleBrokerEpochError,
)
from rookery.core.metadata.image import BrokerRegistration, Image
from rookery.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from rookery.core.metadata.requests import (
    AllocateProducerIdsReply,
    AllocateProducerIdsRequest,
    HeartbeatReply,
    HeartbeatRequest,
    RegisterBrokerReply,
    RegisterBrokerRequest,
    UnregisterBrokerReply,
    UnregisterBrokerRequest,
)


@dataclass(frozen=True, slots=True)
class Liveness:
    """Soft state about brokers that is in no log: their recent contacts with the controller.

    `in_session`: the registered process is known to be alive. `others_offset`: up to where all other active
    brokers have read the metadata log. `shutdown_offset`: where the log ended when the broker gave up its
    leaderships (-1: it did not)."""

    in_session: bool = False
    others_offset: int = -1
    shutdown_offset: int = -1


def check_epoch(image: Image, broker_id: int, epoch: int) -> BrokerRegistration:
    """The broker that speaks; raises STALE_BROKER_EPOCH for anybody but the registered process."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise StaleBrokerEpochError(f"broker {broker_id} is not registered; it must register first")
    if broker.epoch != epoch:
        raise StaleBrokerEpochError(f"broker {broker_id} has epoch {broker.epoch}, not {epoch}")
    return broker


def register_broker(
    image: Image,
    request: RegisterBrokerRequest,
    *,
    cluster_id: str,
    liveness: Liveness,
    defaults: Defaults,
) -> Decision[RegisterBrokerReply]:
    """Register a process; asking again with the same incarnation gives the same epoch."""
    _check_registration(image, request, cluster_id)
    known = image.brokers.get(request.broker_id)
    if known is not None and known.incarnation_id == request.incarnation_id:
        return decided((), RegisterBrokerReply(known.epoch))
    if known is not None and liveness.in_session and not known.in_controlled_shutdown:
        raise DuplicateBrokerRegistrationError(
            f"another process is alive as broker {request.broker_id} (epoch {known.epoch}); stop it, or wait "
            "until its session ends"
        )
    registration = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        endpoints=request.endpoints,
        features=request.features,
        rack=request.rack,
        log_dirs=request.log_dirs,
    )
    clean = known is not None and request.previous_broker_epoch == known.epoch
    after = replayed(image, [registration])
    changes = _out_of_service(after, request.broker_id, defaults, lost=not clean)
    return Decision(
        (registration, *changes),
        lambda image: RegisterBrokerReply(image.brokers[request.broker_id].epoch),
    )


def heartbeat(
    image: Image, request: HeartbeatRequest, liveness: Liveness, defaults: Defaults
) -> Decision[HeartbeatReply]:
    """Fence, unfence or shut down the broker as it asks and as the log allows."""
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    records: list[Record] = list(offline_directories(image, broker, request.offline_log_dirs, defaults))
    image = replayed(image, records)
    broker = image.brokers[broker.id]
    caught_up = request.metadata_offset >= broker.epoch
    should_shut_down = False
    if request.want_shut_down:
        should_shut_down = _may_stop(broker, liveness)
        records += _shut_down(image, broker, should_shut_down, defaults)
    elif request.want_fence and not broker.fenced:
        records += fence(image, broker.id, defaults)
    elif not request.want_fence and caught_up and broker.fenced:
        records += _unfence(image, broker, defaults)
    return Decision(
        tuple(records),
        lambda image: HeartbeatReply(caught_up, image.brokers[request.broker_id].fenced, should_shut_down),
    )


def fence(image: Image, broker_id: int, defaults: Defaults) -> list[Record]:
    """The broker is out of service until it asks to come back; its data counts as kept."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return []
    record = BrokerRegistrationChangeRecord(broker.id, broker.epoch, fenced=True)
    after = replayed(image, [record])
    return [record, *_out_of_service(after, broker.id, defaults, lost=False)]


def unregister_broker(
    image: Image, request: UnregisterBrokerRequest, defaults: Defaults
) -> Decision[UnregisterBrokerReply]:
    """Forget the broker. Replicas stay assigned to its id, but nothing it held counts any more."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(f"broker {request.broker_id} is not registered")
    if not broker.fenced:
        raise InvalidRequestError(
            f"broker {broker.id} is alive, and its replicas would count as lost: stop it, wait until it is fenced"
        )
    record = UnregisterBrokerRecord(broker.id, broker.epoch)
    changes = _out_of_service(replayed(image, [record]), broker.id, defaults, lost=True)
    return decided([record, *changes], UnregisterBrokerReply())


def _check_registration(image: Image, request: RegisterBrokerRequest, cluster_id: str) -> None:
    if request.cluster_id != cluster_id:
        raise InconsistentClusterIdError(
            f"broker {request.broker_id} belongs to cluster {request.cluster_id}, this is {cluster_id}"
        )
    if request.broker_id < 0:
        raise InvalidRegistrationError(f"{request.broker_id} is no broker id")
    if not request.endpoints:
        raise InvalidRegistrationError(f"broker {request.broker_id} offers no listener")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise InvalidRegistrationError(f"broker {request.broker_id} has two log directories with one id")
    for other in image.brokers.values():
        shared = set(request.log_dirs) & set(other.directories)
        if other.id != request.broker_id and shared:
            raise InvalidRegistrationError(
                f"log directories {sorted(map(str, shared))} belong to broker {other.id}: was a disk copied?"
            )
    check_supported(image, request.features, request.broker_id)


def _may_stop(broker: BrokerRegistration, liveness: Liveness) -> bool:
    """A broker may stop when no other one still believes that it leads: all have read what it gave up."""
    if broker.fenced:
        return True
    return broker.in_controlled_shutdown and 0 <= liveness.shutdown_offset <= liveness.others_offset


def _shut_down(image: Image, broker: BrokerRegistration, now: bool, defaults: Defaults) -> list[Record]:
    """First give up all leaderships, then be fenced."""
    if now:
        return fence(image, broker.id, defaults)
    if broker.in_controlled_shutdown:
        return []
    record = BrokerRegistrationChangeRecord(broker.id, broker.epoch, in_controlled_shutdown=True)
    after = replayed(image, [record])
    return [record, *_out_of_service(after, broker.id, defaults, lost=False)]


def _unfence(image: Image, broker: BrokerRegistration, defaults: Defaults) -> list[Record]:
    stays = False if broker.in_controlled_shutdown else None
    record = BrokerRegistrationChangeRecord(
        broker.id, broker.epoch, fenced=False, in_controlled_shutdown=stays
    )
    after = replayed(image, [record])
    return [record, *_elections(after, broker.id, defaults)]


def _out_of_service(
    image: Image, broker_id: int, defaults: Defaults, *, lost: bool
) -> list[PartitionChangeRecord]:
    """Take the broker out of all ISRs; with `lost` out of all ELRs too, since it may lack committed records.
    `image` already knows that it is out of service."""
    electorate = Electorate(image, defaults)
    changes = []
    for topic, index, partition in image.partitions():
        held = broker_id in partition.isr or broker_id in partition.elr
        if not held and partition.leader != broker_id:
            continue
        gone = lost or (bool(partition.directories) and lost_directory(image, broker_id, partition))
        if broker_id not in partition.isr and not gone:
            continue
        isr = tuple(member for member in partition.isr if member != broker_id)
        wanted = Wanted(isr=isr, lost=(broker_id,) if gone else ())
        change = electorate.change(topic, index, partition, wanted)
        if change is not None:
            changes.append(change)
    return changes


def _elections(image: Image, broker_id: int, defaults: Defaults) -> list[PartitionChangeRecord]:
    """Partitions without a leader may have one now that the broker is back."""
    electorate = Electorate(image, defaults)
    changes = (
        electorate.change(topic, index, partition, NOTHING)
        for topic, index, partition in image.partitions()
        if not partition.has_leader and broker_id in partition.replicas
    )
    return [change for change in changes if change is not None]


BLOCK_SIZE = 1000


def allocate_producer_ids(
    image: Image, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsReply]:
    """The next block of producer ids; a block is never given twice, whichever controller leads. The broker's epoch has
    been checked."""
    first = image.next_producer_id
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, first + BLOCK_SIZE)
    return decided([record], AllocateProducerIdsReply(first, BLOCK_SIZE))
