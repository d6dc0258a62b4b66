"""Throws mutated requests at a broker and watches what else is alive."""

import asyncio
import logging
import resource
from random import Random

from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest
from tests.unit.broker.server.mutations import TOPIC, corpus, mutated
from tests.unit.broker.talk import QuietBroker, batch_of, feed

CHECK_EVERY = 500
UNDISTURBED = "undisturbed"
"""No mutated request names this topic; the other one may well be deleted by a request that became valid."""
RSS_GROWTH_MB_MAX = 200


class _Bugs(logging.Handler):
    """Keeps what the broker itself calls a bug: a request that failed for no fault of the client's."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.found.append(f"{record.getMessage()}: {error!r}")


def _rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def fuzz(frames: int, seed: int) -> dict[str, object]:
    """Send `frames` mutated frames; raises AssertionError, naming the seed, when the broker misbehaves."""
    random, originals = Random(seed), corpus()
    broker = QuietBroker(config={"socket.request.max.bytes": "1000000", "auto.create.topics.enable": "false"})
    await broker.create(TOPIC)
    await broker.create(UNDISTURBED)
    logger, bugs = logging.getLogger("rookery"), _Bugs()
    logger.addHandler(bugs)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    bystander, enemy = broker.talk(), broker.talk()
    before_mb, closed, answered = _rss_mb(), 0, 0
    try:
        for number in range(frames):
            feed(enemy.connection, mutated(random, originals))
            closed += not enemy.is_open
            answered += bool(enemy.transport.writes)
            enemy.transport.writes.clear()
            if not enemy.is_open or (enemy.connection.is_busy and random.random() < 0.9):
                enemy.connection.connection_lost(None)
                enemy = broker.talk()
            if number % CHECK_EVERY == 0:
                if TOPIC not in broker.cluster.image.topic_ids:
                    await broker.create(TOPIC)
                broker.advance(0.2)
                await asyncio.sleep(0)
                answer = await bystander.ask(METADATA, 12, MetadataRequest(topics=[]))
                assert answer.brokers, f"seed {seed}: the bystander got no answer after {number} frames"
                produced = await bystander.produce(UNDISTURBED, batch_of(b"undisturbed"))
                assert produced.error_code == ErrorCode.NONE
        grown = _rss_mb() - before_mb
        assert bugs.found == [], f"seed {seed}: {bugs.found[:3]}"
        assert grown < RSS_GROWTH_MB_MAX, f"seed {seed}: memory grew by {grown:.0f} MB"
        grown_mb = round(grown)
        return {"frames": frames, "seed": seed, "closed": closed, "answered": answered, "grown_mb": grown_mb}
    finally:
        logger.removeHandler(bugs)
        logger.setLevel(level)
        logger.propagate = propagate
        await broker.stop()
