"""A scripted broker: it registers, beats, leads, lags behind the log, stops cleanly or not, and sometimes lies."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rookery.core.errors import StaleBrokerEpochError
from rookery.core.metadata import requests as q
from rookery.core.metadata.delta import LatestImage
from rookery.core.metadata.features import SUPPORTED
from rookery.core.metadata.image import Endpoint, Image, LeaderRecoveryState

if TYPE_CHECKING:
    from tests.simulation.controller_world import World

ENDPOINTS = (Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)


BEAT_S = 2.0


class Broker:
    def __init__(self, broker_id: int, world: World, rng: Random) -> None:
        self.id = broker_id
        self._world = world
        self._rng = rng
        self._lives = 0
        self.alive = False
        self.paused = False
        self.stopping = False
        self.epoch = -1
        self.fenced = True
        self.marker = -1
        self.view = LatestImage()
        self.delivered = 0
        self.connected_to: tuple[int, int] | None = None
        self._busy = False
        self.well_since = float("inf")
        self._next_beat = 0.0

    @property
    def image(self) -> Image:
        return self.view.image

    @property
    def healthy(self) -> bool:
        return self.alive and not self.paused and not self.stopping

    def start(self) -> None:
        self._lives += 1
        self.alive, self.paused, self.stopping, self.fenced = True, False, False, True
        self.epoch = -1
        self.view, self.delivered = LatestImage(), 0
        self.connected_to = None
        self._busy = False
        self.well_since = float("inf")
        self._next_beat = 0.0
        self._register()

    def kill(self) -> None:
        """kill -9: the connection closes, nothing is written down."""
        self._disconnect()
        self.alive, self.marker = False, -1

    def stop(self) -> None:
        """SIGTERM: from now on ask to be let go."""
        self.stopping = True

    def act(self) -> None:
        """One turn: connect, beat, and change ISRs of partitions it believes to lead."""
        if not self.healthy:
            self.well_since = float("inf")
        if not self.alive or self.paused:
            return
        if self.healthy and self.well_since == float("inf") and self.epoch != -1:
            self.well_since = self._world.clock.monotonic()
        self._connect()
        if self.epoch == -1:
            self._register()
            return
        if self._world.clock.monotonic() >= self._next_beat:
            self._next_beat = self._world.clock.monotonic() + BEAT_S
            self._beat()
        if self._rng.random() < 0.4:
            self._alter_partitions()
        if self._rng.random() < 0.05:
            self._world.ask(self, q.AllocateProducerIdsRequest(self.id, self.epoch), self._world.given_ids)

    def follow(self, count: int) -> None:
        if self.alive and not self.paused:
            log = self._world.log
            while self.delivered < log.committed and count > 0:
                self.view.on_commit(log.batches[self.delivered])
                self.delivered += 1
                count -= 1

    def _register(self) -> None:
        if self._busy:
            return
        self._busy = True
        life = self._lives
        request = q.RegisterBrokerRequest(
            self._world.cluster_id,
            self.id,
            UUID(int=self.id * 10_000 + life),
            ENDPOINTS,
            SUPPORTED,
            log_dirs=(UUID(int=1000 + self.id),),
            previous_broker_epoch=self.marker,
        )
        self._world.expect_registration(self.id, self.marker)

        def registered(reply: Any) -> None:
            if life != self._lives:
                return
            self._busy = False
            if isinstance(reply, q.RegisterBrokerReply):
                self.epoch = reply.broker_epoch
                self.marker = -1

        self._world.ask(self, request, registered)

    def _connect(self) -> None:
        """Hold a call open at whoever is active, as a real broker does, where that counts for anything."""
        if not self._world.grace_s:
            return
        active = self._world.active()
        target = None if active is None else (active.settings.node_id, active.leader[1])
        if target == self.connected_to or self.epoch == -1 or active is None:
            return
        known = active.committed.brokers.get(self.id)
        if known is not None and known.epoch == self.epoch:
            self.connected_to = target
            active.sessions.opened(self.id, self.epoch, active.now())

    def _disconnect(self) -> None:
        active = self._world.active()
        if active is not None and self.connected_to == (active.settings.node_id, active.leader[1]):
            active.sessions.closed(self.id, self.epoch, active.now())
        self.connected_to = None

    def _beat(self) -> None:
        request = q.HeartbeatRequest(self.id, self.epoch, self.image.offset, want_shut_down=self.stopping)
        life = self._lives

        def beaten(reply: Any) -> None:
            if life != self._lives or not self.alive:
                return
            if isinstance(reply, StaleBrokerEpochError):
                self.epoch = -1
            if isinstance(reply, q.HeartbeatReply):
                self.fenced = reply.fenced
                if self.stopping and reply.should_shut_down:
                    self._disconnect()
                    self.alive, self.marker = False, self.epoch

        self._world.ask(self, request, beaten)

    def _alter_partitions(self) -> None:
        """Shrink or expand ISRs by its own, perhaps old, view; or ask for nonsense."""
        led = [(t.id, i, p) for t, i, p in self.image.partitions() if p.leader == self.id]
        if not led:
            return
        changes = []
        for topic_id, index, partition in self._rng.sample(led, min(3, len(led))):
            lie = self._rng.random() < 0.15
            pool = range(1, 8) if lie else partition.replicas
            isr = {self.id, *(b for b in pool if self._rng.random() < 0.7)}
            known = {b: reg.epoch for b, reg in self.image.brokers.items()}
            changes.append(
                q.IsrChange(
                    topic_id,
                    index,
                    partition.leader_epoch + (self._rng.choice((-1, 1)) if lie else 0),
                    partition.partition_epoch + (self._rng.choice((-1, 0, 1)) if lie else 0),
                    tuple(q.IsrMember(b, known.get(b, -1)) for b in sorted(isr)),
                    LeaderRecoveryState.RECOVERED,
                )
            )
        epoch = self.epoch - 1 if self._rng.random() < 0.05 else self.epoch
        self._world.ask(self, q.AlterPartitionRequest(self.id, epoch, tuple(changes)), lambda reply: None)
