"""A node's settings from its file, the environment and the command line, completed where something is missing.

A configuration written for ZooKeeper names a broker and its listeners, but no controller. Such a node becomes a cluster
of its own: broker and controller, with itself as the only voter, on a port that only this machine can reach. The log
levels that containers are given (KAFKA_LOG4J_LOGGERS, KAFKA_LOG4J_ROOT_LOGLEVEL) are read here, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rookery.broker.node.authorization import authorizer_of, notes_on
from rookery.broker.node.security_checks import check_security
from rookery.core.config import node, security
from rookery.core.config import node as keys
from rookery.core.config.listeners import Endpoint, listeners_of
from rookery.core.config.loading import Loaded, load, read_environment
from rookery.core.config.node import metadata_log_dir
from rookery.core.config.options import ConfigError, Settings
from rookery.core.config.properties import read_overrides, read_properties
from rookery.core.ids import id_text, new_id
from rookery.core.log.ownership import META_PROPERTIES


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
    completed = with_quorum(loaded.settings)
    settings = completed.settings
    if completed.alone and not settings[keys.CLUSTER_ID] and not belongs_somewhere(settings):
        settings = settings.having({keys.CLUSTER_ID.name: id_text(new_id())})
    warnings = (
        *loaded.warnings,
        *completed.notes,
        *notes_on(authorizer_of(settings)),
        *check_security(settings),
        *_readable_by_others(config, loaded),
    )
    return replace(loaded, settings=settings, warnings=warnings)


def _readable_by_others(config: Path | None, loaded: Loaded) -> Iterator[str]:
    """Files with passwords or keys that others than their owner can read."""
    secrets = [name for name, origin in loaded.sources.items() if origin == "file" and node.TABLE[name].sensitive]
    jaas = loaded.settings[security.JAAS_FILE]
    for path, why in ((config if secrets else None, " and ".join(secrets[:2])), (jaas and Path(jaas), "logins")):
        with suppress(OSError):
            if path and path.stat().st_mode & 0o077:
                yield f"{path} holds {why}, and others than its owner can read it: chmod 600"


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
"""The part of a node that a logger of Kafka stands for."""


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


CONTROLLER_HOST = "127.0.0.1"
CONTROLLER_PORT = 9093
CONTROLLER_PORT_STEP = 100
DEFAULT_NODE_ID = 1


@dataclass(frozen=True, slots=True)
class Standalone:
    """Completed settings, and notes about what was added; no notes if the node has a quorum."""

    settings: Settings
    notes: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        return bool(self.notes)


def with_quorum(settings: Settings) -> Standalone:
    """`settings` with a quorum of one, if they name no quorum and do not say what the node's role is."""
    quorum_options = (
        node.CONTROLLER_QUORUM_VOTERS,
        node.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS,
        node.PROCESS_ROLES,
    )
    if any(settings.is_set(option) for option in quorum_options):
        return Standalone(settings)
    node_id = settings[node.NODE_ID] if settings.is_set(node.NODE_ID) else DEFAULT_NODE_ID
    end, listeners = _controller(settings)
    texts = {
        node.NODE_ID.name: str(node_id),
        node.LISTENERS.name: ",".join(map(str, listeners)),
        node.CONTROLLER_QUORUM_VOTERS.name: f"{node_id}@{end.host or CONTROLLER_HOST}:{end.port}",
    }
    note = (
        f"no controller.quorum.voters, controller.quorum.bootstrap.servers or process.roles: node {node_id} is a "
        f"cluster of its own, with its controller on {end.host}:{end.port}"
    )
    return Standalone(settings.having(texts), (note,))


def _controller(settings: Settings) -> tuple[Endpoint, list[Endpoint]]:
    """The controller's address, as configured or on the first port that no client listener uses; and all listeners."""
    found = listeners_of(settings)
    clients = [listener.bind for listener in found.clients]
    if settings.is_set(node.LISTENERS) and found.controllers:
        end = found.controllers[0].bind
    else:
        name = settings[node.CONTROLLER_LISTENER_NAMES][0].upper()
        taken = {client.port for client in clients}
        port = next(port for port in range(CONTROLLER_PORT, 1 << 16, CONTROLLER_PORT_STEP) if port not in taken)
        end = Endpoint(name, CONTROLLER_HOST, port)
    return end, [*clients, end]
