"""The parts of a running consumer and their tasks, put together."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any
from uuid import uuid4

from rookery.client.consumer import options
from rookery.client.consumer.assignors import ASSIGNORS
from rookery.client.consumer.classic import ClassicMembership
from rookery.client.consumer.fetcher import Fetcher, FetchSettings
from rookery.client.consumer.fetches import Fetches, FetchLimits
from rookery.client.consumer.group import Group
from rookery.client.consumer.kip848 import ConsumerMembership
from rookery.client.consumer.lookups import Lookups
from rookery.client.consumer.membership import Membership
from rookery.client.consumer.metadata import Metadata
from rookery.client.consumer.offsets import GroupOffsets
from rookery.client.consumer.partition import Partition
from rookery.client.consumer.positions import Positions
from rookery.client.options import (
    DEFAULT_API_TIMEOUT_MS,
    METADATA_MAX_AGE_MS,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MAX_MS,
    RETRY_BACKOFF_MS,
    Settings,
)
from rookery.client.types import GroupMetadata
from rookery.core.clock import Clock
from rookery.core.event_logging import get_logger
from rookery.core.net.backoff import BackoffSettings
from rookery.core.net.cluster import Cluster
from rookery.core.net.peers import Peers

log = get_logger("client.consumer")


class Engine:
    """Connections of its own for fetches, which wait at the node, and for the group, whose joins do.

    `on_event` is called when something concerns the user's call, `on_data` when there is more to hand out. `crash`
    has the error of a task that ended.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        fetches: Fetches,
        clock: Clock,
        rng: Random,
        member: Callable[[], GroupMetadata | None],
        on_event: Callable[[], None],
        on_data: Callable[[], None],
        on_refresh: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._on_event = on_event
        self._fetch_peers: Peers = cluster.separate_peers()
        self._group_peers: Peers = cluster.separate_peers()
        self._tasks: list[asyncio.Task[None]] = []
        self.crash: BaseException | None = None
        backoff = BackoffSettings(settings[RETRY_BACKOFF_MS] / 1000, settings[RETRY_BACKOFF_MAX_MS] / 1000)
        max_age_s = settings[METADATA_MAX_AGE_MS] / 1000
        read_committed = settings[options.ISOLATION_LEVEL] == "read_committed"
        timeout_s = settings[DEFAULT_API_TIMEOUT_MS] / 1000
        group_id = settings[options.GROUP_ID]
        self.metadata = Metadata(
            cluster,
            max_age_s=max_age_s,
            backoff=backoff,
            create=settings[options.ALLOW_AUTO_CREATE_TOPICS],
            rng=rng,
        )
        self.metadata.on_refresh = on_refresh
        self.lookups = Lookups(cluster, self.metadata, read_committed=read_committed)
        self.offsets = (
            GroupOffsets(
                cluster,
                group_id,
                member=member,
                backoff=backoff,
                rng=rng,
                timeout_s=timeout_s,
                require_stable=read_committed,
            )
            if group_id
            else None
        )
        self.positions = Positions(
            fetches,
            self.metadata,
            self.lookups,
            self.offsets,
            reset=settings[options.AUTO_OFFSET_RESET],
            clock=clock,
            backoff=backoff,
            rng=rng,
            on_found=self._positions_found,
        )
        self.fetcher = Fetcher(
            fetches,
            self.metadata,
            self._fetch_peers,
            FetchSettings(
                min_bytes=settings[options.FETCH_MIN_BYTES],
                max_wait_s=settings[options.FETCH_MAX_WAIT_MS] / 1000,
                timeout_s=settings[REQUEST_TIMEOUT_MS] / 1000,
                rack=settings[options.CLIENT_RACK],
                metadata_max_age_s=max_age_s,
                backoff=backoff,
            ),
            rng,
            on_data=on_data,
            on_out_of_range=self._out_of_range,
            on_unvalidated=self.positions.notify,
        )
        self.group = (
            Group(
                cluster,
                self._group_peers,
                self.metadata,
                group_id,
                settings[options.GROUP_INSTANCE_ID] or None,
                options.protocols(settings),
                self._membership,
                backoff=backoff,
                rng=rng,
                slow_timeout_s=(settings[options.MAX_POLL_INTERVAL_MS] + settings[REQUEST_TIMEOUT_MS]) / 1000,
                on_attention=on_event,
            )
            if group_id
            else None
        )

    def start(self) -> None:
        self.spawn(self.metadata.run(), "metadata")
        self.spawn(self.positions.run(), "positions")
        self.spawn(self.fetcher.run(), "fetches")
        if self.group is not None:
            self.spawn(self.group.run(), "group")

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"consumer: {name}")
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.exception("consumer.crashed", error, task=task.get_name())
            self.crash = self.crash or error
            self._on_event()

    async def stop(self) -> None:
        """Cancel all tasks and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        self._fetch_peers.close()
        self._group_peers.close()

    # --- between the parts ----------------------------------------------------------------------------------

    def _positions_found(self) -> None:
        self.fetcher.notify()
        self._on_event()

    def _out_of_range(self, partition: Partition) -> None:
        self.positions.reset(partition, f"offset {partition.fetch_offset} is out of range")

    def _membership(self, protocol: str) -> Membership:
        settings = self._settings
        instance_id = settings[options.GROUP_INSTANCE_ID] or None
        rack = settings[options.CLIENT_RACK] or None
        rebalance_timeout_s = settings[options.MAX_POLL_INTERVAL_MS] / 1000
        if protocol == "consumer":
            return ConsumerMembership(
                settings[options.GROUP_ID],
                str(uuid4()),
                instance_id=instance_id,
                rack=rack,
                rebalance_timeout_s=rebalance_timeout_s,
                assignor=settings[options.GROUP_REMOTE_ASSIGNOR] or None,
            )
        return ClassicMembership(
            settings[options.GROUP_ID],
            [ASSIGNORS[name]() for name in settings[options.PARTITION_ASSIGNMENT_STRATEGY]],
            instance_id=instance_id,
            rack=rack,
            session_timeout_s=settings[options.SESSION_TIMEOUT_MS] / 1000,
            rebalance_timeout_s=rebalance_timeout_s,
            heartbeat_interval_s=settings[options.HEARTBEAT_INTERVAL_MS] / 1000,
        )


def fetch_limits(settings: Settings) -> FetchLimits:
    return FetchLimits(
        bytes_max=settings[options.FETCH_MAX_BYTES],
        partition_bytes_max=settings[options.MAX_PARTITION_FETCH_BYTES],
        check_crcs=settings[options.CHECK_CRCS],
        read_committed=settings[options.ISOLATION_LEVEL] == "read_committed",
    )
