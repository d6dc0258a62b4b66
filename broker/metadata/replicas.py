"""Makes this broker's replicas what the metadata log says they should be.

A replica that is open takes over a change at once. One that has to be made, replaced or removed waits its turn in
a queue, because that waits for the disk; when its turn comes, what counts is what the image says *then*, so any
number of changes in between cost nothing. Which replica leads, whom it follows and by which options it lives is
decided here; what that means for its records is the partition's business.

A damaged replica is rebuilt from the others, and is not needed meanwhile. First its directory is reported to the
controller as lost: it leaves the ISR and the ELR, and another replica leads. Only when the image says so are its files
set aside and a new one is begun, and only when the leader has answered a fetch of the new one does it have a directory
again, and may join the ISR. While no other replica is in sync, the damaged one is kept.

A replica that is not found here begins empty only where that loses nothing: it is new, or others have its records and
it is in neither ISR nor ELR, as above. While a log directory is missing it may lie there, and stays offline.

Until the metadata log has been replayed past this broker's own registration, nothing is done: what it says up to
there was decided about an earlier incarnation, and to act on it would be to lead where another leads already.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from uuid import UUID

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.log_dir import LogDir
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.metadata.cluster_view import ClusterView
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.partitions import Partitions
from rookery.broker.replication.replica_fetcher import Leader
from rookery.broker.replication.replica_fetchers import ReplicaFetchers
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.errors import KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.log import LogDirFailed
from rookery.core.metadata import image as im
from rookery.core.metadata.image import Changes
from rookery.core.service import Service
from rookery.core.types import TopicPartition

LOOK_S = 0.1
MANY = 16
"""Replicas that wait before the folders of new ones are made together."""
FOLDERS = 512
"""How many of them at a time."""
TURN = 16
"""How many replicas are settled in one turn of the event loop."""
RETRY_S = 1.0
"""Pause before a replica that could not be made is tried again."""
_log = get_logger("broker.metadata.replicas")
Key = tuple[UUID, int]

TopicOptions = Callable[[str], tuple[TopicSettings, TopicLogConfig]]
"""The options of a topic by its name, as the image has them now."""


class Replicas(Service):
    """Publisher of metadata changes to partitions, logs and followers."""

    name = "replicas"

    def __init__(
        self,
        view: ClusterView,
        partitions: Partitions,
        log_dirs: LogDirs,
        followers: ReplicaFetchers,
        *,
        listener: str,
        options_of: TopicOptions,
        make: Callable[[UUID, PartitionLog, TopicSettings], Partition],
        assigned: Callable[[Key, UUID], None],
    ) -> None:
        """`listener` is where brokers reach each other; `assigned` gets the directory that holds a replica."""
        self._view = view
        self._partitions = partitions
        self._log_dirs = log_dirs
        self._followers = followers
        self._listener = listener
        self._options_of = options_of
        self._make = make
        self._assigned = assigned
        self._queue: dict[Key, None] = {}
        self._settling: Key | None = None
        self._refetched: dict[Key, Partition] = {}
        """Replicas without a directory in the image, until their leader has answered a fetch of them."""
        self._arrived: set[Key] = set()
        """Replicas given to this broker since it is active, or set aside, until they are made: nothing of them is
        anywhere here."""
        self._retired: dict[Key, TopicPartition] = {}
        """Where replicas lie that are about to be removed."""
        self._failed: dict[Key, float] = {}
        """Replicas that could not be made, and when to try again."""
        self.rebuilds = 0
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._active = False

    # --- changes of the image -------------------------------------------------------------------------------

    def publish(self, changes: Changes) -> None:
        """Carry out what concerns this broker."""
        if not self._active:
            return
        me = self._view.node_id
        for change in changes.partitions:
            hosted = change.after is not None and me in change.after.replicas
            was_hosted = change.before is not None and me in change.before.replicas
            key = (change.topic_id, change.partition)
            if hosted and not was_hosted:
                self._arrived.add(key)
            if hosted or was_hosted:
                self._reconcile(key, change.after if hosted else None)
        if changes.brokers:
            self._follow_again(set(changes.brokers))
        if changes.configs:
            self._configure(changes.configs)

    def activate(self) -> None:
        """The image is as new as this broker's registration: make everything what it says, from now on."""
        self._active = True
        hosted = [each for each in self._view.image.partitions() if self._view.node_id in each[2].replicas]
        for topic, index, partition in sorted(hosted, key=lambda each: (each[0].name, each[1])):
            self._reconcile((topic.id, index), partition)
        self._queue_strays()

    def _reconcile(self, key: Key, wanted: im.Partition | None) -> None:
        """Apply at once where the replica is open, stays and lies where the image says, else queue."""
        partition = self._partitions.of(*key)
        if partition is not None and wanted is not None and key not in self._queue and key != self._settling:
            try:
                self._apply(partition, wanted)
                if self._is_in_place(partition, wanted) or self._is_reported(key, partition, wanted):
                    return
            except KafkaError:  # of this replica alone: it is tried again, and failures are reported, from the queue
                pass
        if partition is not None and wanted is None:
            self._retire(partition)
            self._retired[key] = partition.topic_partition
        self._enqueue(key)

    def _is_in_place(self, partition: Partition, wanted: im.Partition) -> bool:
        """Whether the image has the directory in which an undamaged replica lies."""
        place = partition.topic_partition
        log_dir = self._log_dirs.dir_of.get(place)
        known = log_dir is not None and wanted.directory(self._view.node_id) == log_dir.directory_id
        return known and place not in self._log_dirs.damaged

    def _is_reported(self, key: Key, partition: Partition, wanted: im.Partition) -> bool:
        """Whether the directory of an undamaged replica is all that the image lacks; it is reported then."""
        place = partition.topic_partition
        lies = self._log_dirs.topic_ids.get(place) == key[0] and place in self._log_dirs.partitions
        unassigned = wanted.directory(self._view.node_id) == im.UNASSIGNED_DIRECTORY
        if not lies or not unassigned or place in self._log_dirs.damaged:
            return False
        self._report(key, partition, wanted)
        return True

    def _enqueue(self, key: Key) -> None:
        self._queue[key] = None
        self._idle.clear()
        self._work.set()

    def _apply(self, partition: Partition, wanted: im.Partition) -> None:
        before = partition.state
        if partition.offline:
            return
        partition.apply(wanted)
        if partition.is_leader:
            self._followers.unfollow(partition.topic_id, partition.index)
            if wanted.leader_epoch != before.leader_epoch:
                _log.info(
                    "leadership.begun", topic=partition.topic, partition=partition.index,
                    epoch=wanted.leader_epoch, isr=list(wanted.isr), log_end=partition.log.end_offset,
                )  # fmt: skip
        elif wanted.leader_epoch != before.leader_epoch or wanted.leader != before.leader:
            self._follow(partition)

    def _follow(self, partition: Partition) -> None:
        leader = self._view.image.brokers.get(partition.state.leader)
        endpoint = leader.endpoint(self._listener) if leader is not None else None
        if leader is None or endpoint is None:
            self._followers.unfollow(partition.topic_id, partition.index)
        else:
            self._followers.follow(partition, Leader(leader.id, endpoint.host, endpoint.port))

    def _follow_again(self, brokers: set[int]) -> None:
        """A leader registered anew, perhaps at another address."""
        for partition in self._partitions:
            if partition.state.leader in brokers and not partition.is_leader and not partition.offline:
                self._follow(partition)

    def _configure(self, resources: Iterable[im.ConfigResource]) -> None:
        """Options of topics changed, or the broker's own, on which those of all topics stand."""
        topics = {r.name for r in resources if r.type == im.ResourceType.TOPIC}
        everything = any(r.type == im.ResourceType.BROKER for r in resources)
        for partition in self._partitions:
            if everything or partition.topic in topics:
                partition.settings, partition.log.config = self._options_of(partition.topic)

    def _retire(self, partition: Partition) -> None:
        """This broker no longer has the replica: it is neither read nor written from now on."""
        self._followers.unfollow(partition.topic_id, partition.index)
        self._partitions.remove(partition.topic_id, partition.index)
        partition.apply(im.Partition(replicas=(), isr=(), leader=-1, leader_epoch=partition.state.leader_epoch))

    # --- the queue ------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        ahead = 0  # of the queue, whose folders were made
        settled = 0
        while True:
            while self._queue:
                if not ahead and len(self._queue) >= MANY:
                    ahead = await self._make_folders()
                ahead = max(0, ahead - 1)
                key = next(iter(self._queue))
                del self._queue[key]  # before it is settled: what changes meanwhile is settled next
                self._settling = key
                try:
                    await self._settle(key)
                except (KafkaError, LogDirFailed) as error:
                    self._put_off(key, error)
                except Exception as error:  # a defect concerns this replica, not the others
                    _log.exception("replica.broken", error, topic_id=str(key[0]), partition=key[1])
                    self._put_off(key, error)
                self._settling = None
                settled += 1
                if settled % TURN == 0:
                    await asyncio.sleep(0)
            self._idle.set()
            self._work.clear()
            await self._until_work()

    async def _make_folders(self) -> int:
        """Many replicas wait, as after the creation of a topic: make the folders of new ones together. Returns for how
        many of the queue that was done."""
        keys, new = list(islice(self._queue, FOLDERS)), []
        for key in keys:
            topic = self._view.image.topics.get(key[0])
            wanted = topic.partitions.get(key[1]) if topic is not None else None
            if topic is None or wanted is None or self._view.node_id not in wanted.replicas:
                continue
            place = TopicPartition(topic.name, key[1])
            if place not in self._log_dirs.dir_of and self._is_new(key, wanted):
                new.append((place, topic.id))
        if len(new) >= MANY:
            with suppress(KafkaError, LogDirFailed):  # reported for each of them, when its turn comes
                await self._log_dirs.prepare(new)
        return len(keys)

    async def _until_work(self) -> None:
        while not self._work.is_set():
            self._report_refetched()
            self._try_again()
            try:
                async with asyncio.timeout(LOOK_S if self._refetched or self._failed else None):
                    await self._work.wait()
            except TimeoutError:
                continue

    def _put_off(self, key: Key, error: Exception) -> None:
        """A replica could not be made or removed: others lead meanwhile if they can, and it is tried again."""
        _log.error(
            "replica.failed", topic_id=str(key[0]), partition=key[1], reason=str(error), retry_in_s=RETRY_S
        )
        self._failed[key] = asyncio.get_running_loop().time() + RETRY_S
        wanted = self._view.image.partition(*key)
        if wanted is not None and self._view.node_id in wanted.replicas and self._partitions.of(*key) is None:
            self._may_be_rebuilt(key, wanted)

    def _try_again(self) -> None:
        now = asyncio.get_running_loop().time()
        for key in [key for key, when in self._failed.items() if when <= now]:
            self._enqueue(key)

    async def settled(self) -> None:
        """Wait until every replica is as the image has it."""
        await self._idle.wait()

    async def _settle(self, key: Key) -> None:
        """Make, replace or remove one replica as the image says now."""
        topic_id, index = key
        self._failed.pop(key, None)
        retired = self._retired.pop(key, None)
        topic = self._view.image.topics.get(topic_id)
        wanted = topic.partitions.get(index) if topic is not None else None
        if topic is None or wanted is None or self._view.node_id not in wanted.replicas:
            await self._remove(key, retired)
            return
        place = TopicPartition(topic.name, index)
        log = await self._log_for(key, place, wanted)
        if log is None:
            if place in self._log_dirs.damaged:
                self._partitions.refused[place] = self._log_dirs.damaged[place]
            return
        self._arrived.discard(key)
        settings, config = self._options_of(topic.name)
        log.config = config
        partition = self._partitions.of(topic_id, index)
        if partition is None:
            partition = self._make(topic_id, log, settings)
            self._partitions.add(partition)
        if place not in self._log_dirs.damaged or wanted.leader < 0:
            self._report(key, partition, wanted)
        now_wanted = self._view.image.partition(topic_id, index)
        if now_wanted is not None and self._view.node_id in now_wanted.replicas:
            self._apply(partition, now_wanted)

    async def _log_for(self, key: Key, place: TopicPartition, wanted: im.Partition) -> PartitionLog | None:
        """The log of a replica: the one that is there, or a new one; None if that cannot be used."""
        log_dirs, topic_id = self._log_dirs, key[0]
        here = place in log_dirs.partitions or place in log_dirs.damaged
        if place in log_dirs.dir_of and log_dirs.topic_ids.get(place) not in (None, topic_id):
            _log.info("replica.replaced", partition=str(place), reason="it belongs to a deleted topic of that name")
            await log_dirs.delete(place)
        elif here and log_dirs.topic_ids.get(place) is None and self._is_new(key, wanted) and log_dirs.is_used(place):
            _log.warning("replica.replaced", partition=str(place), reason="whose it was is not known")
            await log_dirs.set_aside(place)
        elif log_dirs.still_damaged(place) and self._may_be_rebuilt(key, wanted):
            self.rebuilds += 1
            _log.warning("replica.rebuilt", partition=str(place), reason=str(log_dirs.damaged[place]))
            partition = self._partitions.of(*key)
            if partition is not None:
                self._retire(partition)
            log_dir = log_dirs.dir_of[place]
            await log_dirs.set_aside(place)
            if log_dir.failure is None:  # else its folder is where it was
                self._arrived.add(key)
        if place in log_dirs.partitions:
            if log_dirs.topic_ids.get(place) is None:
                await log_dirs.adopt(place, topic_id)
            return log_dirs.partitions.get(place)  # unless its directory failed meanwhile
        if place in log_dirs.dir_of:
            return None  # its directory is offline, or no other replica has what it lost
        if not self._may_begin(key, place, wanted):
            return None
        return await log_dirs.create(place, topic_id)

    def _may_begin(self, key: Key, place: TopicPartition, wanted: im.Partition) -> bool:
        """Whether a replica that is not found here may begin empty."""
        if self._is_new(key, wanted):
            return True
        missing, directory = self._log_dirs.offline, wanted.directory(self._view.node_id)
        if not missing and directory == im.UNASSIGNED_DIRECTORY:
            return True  # it was never made, or it would have been reported
        if self._may_be_rebuilt(key, wanted) and not missing:
            return True
        _log.error(
            "replica.missing", partition=str(place), directory=str(directory), missing=missing, isr=list(wanted.isr),
            todo="bring the directory back and restart the broker; without it the replica is rebuilt once it is not in "
            "log.dirs any more and another one is in sync",
        )  # fmt: skip
        return False

    def _is_new(self, key: Key, wanted: im.Partition) -> bool:
        """Whether nothing of the replica can be here: it came in this life, or nothing happened to it yet."""
        return key in self._arrived or wanted.partition_epoch == 0

    def _may_be_rebuilt(self, key: Key, wanted: im.Partition) -> bool:
        """Whether a damaged replica can go: another one leads, and the controller counts on this one no longer."""
        me = self._view.node_id
        if wanted.leader < 0 or not any(node != me for node in wanted.isr):
            return False
        if wanted.directory(me) == im.LOST_DIRECTORY:
            return wanted.leader != me
        self._assigned(key, im.LOST_DIRECTORY)  # the change that follows comes back here
        return False

    def _report(self, key: Key, partition: Partition, wanted: im.Partition) -> None:
        """Report the directory to the controller. A replica that was lost may join the ISR from then on, so its
        leader must have dropped the end offset of the lost copy: it has, once it answered a fetch of the new one."""
        if wanted.directory(self._view.node_id) == im.LOST_DIRECTORY:
            self._refetched[key] = partition
        else:
            self._assigned(key, self._log_dirs.dir_of[partition.topic_partition].directory_id)

    def _report_refetched(self) -> None:
        for key, partition in list(self._refetched.items()):
            gone = self._partitions.of(*key) is not partition or partition.offline
            if gone or partition.state.leader < 0 or self._followers.is_answered(*key):
                del self._refetched[key]
                if not gone:
                    self._assigned(key, self._log_dirs.dir_of[partition.topic_partition].directory_id)

    async def _remove(self, key: Key, retired: TopicPartition | None) -> None:
        self._arrived.discard(key)
        partition = self._partitions.of(*key)
        if partition is not None:
            self._retire(partition)
            retired = partition.topic_partition
        for place in self._places_of(key, retired):
            await self._log_dirs.delete(place)
            self._partitions.refused.pop(place, None)
            _log.info("replica.deleted", partition=str(place))

    def _places_of(self, key: Key, retired: TopicPartition | None) -> list[TopicPartition]:
        """Where a replica lies: where it was open, else wherever its topic's id is found."""
        topic_ids = self._log_dirs.topic_ids
        if retired is not None and topic_ids.get(retired) == key[0]:
            return [retired]
        return [place for place, topic_id in topic_ids.items() if topic_id == key[0] and place.partition == key[1]]

    def _queue_strays(self) -> None:
        """Logs of replicas that this broker is not to hold any more."""
        image = self._view.image
        for place, topic_id in self._log_dirs.topic_ids.items():
            found = image.partition(topic_id, place.partition) if topic_id is not None else None
            if topic_id is not None and (found is None or self._view.node_id not in found.replicas):
                self._reconcile((topic_id, place.partition), None)

    # --- failures -------------------------------------------------------------------------------------------

    def damaged(self, place: TopicPartition) -> None:
        """Damage was found in a replica."""
        partition = self._partitions.named(*place)
        if self._active and partition is not None:
            self._enqueue((partition.topic_id, partition.index))

    def dir_failed(self, _: LogDir, gone: Iterable[TopicPartition]) -> None:
        """A log directory is offline: its replicas serve nothing; the controller moves their leaderships."""
        for place in gone:
            partition = self._partitions.named(*place)
            if partition is not None:
                self._followers.unfollow(partition.topic_id, partition.index)
                partition.go_offline()
