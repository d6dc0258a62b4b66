"""The controller role is put together as the configuration says."""

from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from rookery.broker.node.controller_role import ControllerRole
from rookery.controller.raft.settings import RaftSettings, first_voters
from rookery.controller.server import control_texts, controller_listener
from rookery.core.clock import SystemClock
from rookery.core.config import node as keys
from rookery.core.config.options import ConfigError, Settings
from rookery.core.log.ownership import MetaProperties
from rookery.core.metrics import Metrics
from rookery.core.net.tls import read_tls
from rookery.core.testing.disk import MemoryDisk
from tests.certificates import Authority

META = MetaProperties("cluster", 3, UUID(int=5))


def settings(**more: str) -> Settings:
    texts = {"node.id": "3", "listeners": "CONTROLLER://127.0.0.1:9093", "log.dirs": "/data/a,/data/b"}
    return Settings(keys.TABLE).having({**texts, **{key.replace("_", "."): value for key, value in more.items()}})


def test_kafkas_keys_become_rafts_settings() -> None:
    found = RaftSettings.of(
        settings(
            controller_quorum_voters="1@a:1,3@c:3",
            controller_quorum_fetch_timeout_ms="300",
            controller_quorum_election_timeout_ms="200",
        ),
        META,
        None,
    )
    assert (found.cluster_id, found.node_id, found.directory_id) == ("cluster", 3, UUID(int=5))
    assert found.folder == "/data/a"
    assert found.endpoints == {1: "a:1", 3: "c:3"}
    raft = found.raft
    assert (raft.fetch_timeout_ms, raft.election_timeout_ms, raft.fetch_max_wait_ms) == (300, 200, 150)
    assert RaftSettings.of(settings(metadata_log_dir="/meta"), META, None).folder == "/meta"


@pytest.mark.parametrize("text", ["1", "one@a:1", "1@a", "@a:1"])
def test_voters_that_cannot_be_understood_are_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters"):
        first_voters([text])


def test_two_voters_with_one_id_are_refused() -> None:
    with pytest.raises(ConfigError, match="two voters"):
        first_voters(["1@a:1", "1@b:1"])


def test_a_controller_needs_its_listener() -> None:
    with pytest.raises(ConfigError, match="CONTROLLER"):
        controller_listener(settings(listeners="PLAINTEXT://127.0.0.1:9092"))


def test_tls_between_nodes_is_mutual(tmp_path: Path) -> None:
    made = Authority(tmp_path).settings("node", "node-3")
    secure = settings(
        listener_security_protocol_map="CONTROLLER:SSL",
        ssl_keystore_location=made["ssl.keystore.location"],
        ssl_truststore_location=made["ssl.truststore.location"],
    )
    texts = control_texts(secure)
    assert texts is not None
    assert read_tls(texts).client_auth == "required"
    plain = settings()
    assert control_texts(plain) is None
    with pytest.raises(ConfigError, match="PLAINTEXT already"):
        control_texts(settings(rookery_controller_plaintext="accept"))


def test_the_server_starts_first_and_stops_last() -> None:
    role = ControllerRole(settings(), META, disk=MemoryDisk(Random(0)), clock=SystemClock(), metrics=Metrics())
    assert [service.name for service in role.services] == ["control-server", "raft", "controller"]
