"""KAFKA_LOG4J_LOGGERS and KAFKA_LOG4J_ROOT_LOGLEVEL: log levels as containers are told them."""

from collections.abc import Mapping

LEVELS = {
    "TRACE": "DEBUG",
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "WARN": "WARNING",
    "WARNING": "WARNING",
    "ERROR": "ERROR",
    "FATAL": "CRITICAL",
    "OFF": "CRITICAL",
}
KAFKAS = {
    "kafka.controller": "controller",
    "org.apache.kafka.controller": "controller",
    "org.apache.kafka.raft": "controller.raft",
    "org.apache.kafka.metadata": "broker.metadata",
    "org.apache.kafka.image": "broker.metadata",
    "state.change.logger": "broker.metadata.replicas",
    "kafka.server": "broker",
    "kafka.cluster": "broker.replication",
    "kafka.server.ReplicaManager": "broker.replication",
    "kafka.server.ReplicaFetcherThread": "broker.replication.follower",
    "kafka.log": "broker.log",
    "kafka.log.LogCleaner": "broker.log",
    "kafka.coordinator": "broker.coordination",
    "kafka.network": "broker.server",
    "kafka.network.RequestChannel$": "broker.server",
    "kafka.request.logger": "broker.server",
}
"""The part of a node that does what a logger of Kafka tells of."""


def level_of(text: str) -> str | None:
    return LEVELS.get(text.strip().upper())


def root_level(environ: Mapping[str, str], configured: str) -> str:
    """The level of everything that has none of its own."""
    return level_of(environ.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "")) or configured


def read_levels(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Levels by logger, and notes on what was not understood. A logger is named as here (``controller.raft``) or as
    in Kafka; classes of Kafka without a counterpart are passed over in silence, as compose files are full of them."""
    levels: dict[str, str] = {}
    notes = []
    for pair in filter(None, map(str.strip, environ.get("KAFKA_LOG4J_LOGGERS", "").split(","))):
        name, _, text = pair.partition("=")
        level = level_of(text)
        if level is None:
            allowed = ", ".join(LEVELS)
            notes.append(f"KAFKA_LOG4J_LOGGERS: {pair} is ignored, name=level with one of {allowed} is needed")
        else:
            levels[KAFKAS.get(name.strip(), name.strip())] = level
    return levels, notes
