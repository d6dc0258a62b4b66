"""A node's settings from its file, the environment and the command line, completed where they say too little; and the
log levels that containers are given (KAFKA_LOG4J_LOGGERS, KAFKA_LOG4J_ROOT_LOGLEVEL)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rookery.core.config import node as keys
from rookery.core.config.authorizer import check_authorizer
from rookery.core.config.defaults import metadata_log_dir
from rookery.core.config.loading import Loaded, load, read_environment, read_overrides, read_properties
from rookery.core.config.options import ConfigError, Settings
from rookery.core.config.standalone import complete
from rookery.core.ids import id_text, new_id
from rookery.core.log.folder_files import META_PROPERTIES


def load_settings(config: Path | None, environ: Mapping[str, str], overrides: Sequence[str] = ()) -> Loaded:
    """File < environment < --set."""
    layers: list[tuple[str, Mapping[str, str]]] = []
    if config is not None:
        try:
            layers.append(("file", read_properties(config.read_text(), str(config))))
        except OSError as error:
            raise ConfigError("--config", str(config), f"it cannot be read: {error.strerror}") from error
    from_environment, notes = read_environment(environ)
    layers += [("environment", from_environment), ("--set", read_overrides(overrides))]
    loaded = load(layers, notes=notes)
    completed = complete(loaded.settings)
    settings = completed.settings
    if completed.alone and not settings[keys.CLUSTER_ID] and not belongs_somewhere(settings):
        settings = settings.having({keys.CLUSTER_ID.name: id_text(new_id())})
    told = (*loaded.warnings, *completed.notes, *check_authorizer(settings))
    return replace(loaded, settings=settings, warnings=told)


def belongs_somewhere(settings: Settings) -> bool:
    """Whether the node's folder knows its cluster already."""
    return (Path(metadata_log_dir(settings)) / META_PROPERTIES).exists()


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
