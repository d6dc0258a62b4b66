"""A compose service written for Kafka with ZooKeeper starts with only its image swapped."""

from pathlib import Path

import pytest

from rookery.broker.node.command import EXIT_CONFIG
from rookery.broker.node.settings import load_settings, read_levels, root_level
from rookery.client.cli.__main__ import main
from rookery.core.config import node as keys
from rookery.core.config.listeners import listeners_of
from rookery.core.config.loading import Loaded

SERVICE = {
    "KAFKA_ADVERTISED_LISTENERS": (
        "INTERNAL://kafka1:19092,EXTERNAL://127.0.0.1:9092,DOCKER://host.docker.internal:29092"
    ),
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,DOCKER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
    "KAFKA_ZOOKEEPER_CONNECT": "zoo1:2181",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_LOG4J_LOGGERS": (
        "kafka.controller=INFO,kafka.producer.async.DefaultEventHandler=INFO,state.change.logger=WARN"
    ),
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_JMX_PORT": "9999",
    "KAFKA_JMX_HOSTNAME": "127.0.0.1",
    "KAFKA_AUTHORIZER_CLASS_NAME": "kafka.security.authorizer.AclAuthorizer",
    "KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "true",
}



def started(folder: Path, **changes: str) -> Loaded:
    return load_settings(None, {**SERVICE, "KAFKA_LOG_DIRS": str(folder), **changes})


@pytest.mark.row(155)
def test_it_is_a_cluster_of_one(tmp_path: Path) -> None:
    settings = started(tmp_path).settings
    assert settings[keys.NODE_ID] == 1
    assert settings[keys.PROCESS_ROLES] == ("broker", "controller")
    assert settings[keys.CONTROLLER_QUORUM_VOTERS] == ("1@127.0.0.1:9093",)
    assert settings[keys.OFFSETS_TOPIC_REPLICATION_FACTOR] == 1
    assert len(settings[keys.CLUSTER_ID]) == 22


@pytest.mark.row(155, 156)
def test_its_three_listeners_are_bound_on_all_addresses_and_advertised_as_asked(tmp_path: Path) -> None:
    found = listeners_of(started(tmp_path).settings)
    assert [(str(each.bind), str(each.advertised)) for each in found.clients] == [
        ("INTERNAL://0.0.0.0:19092", "INTERNAL://kafka1:19092"),
        ("EXTERNAL://0.0.0.0:9092", "EXTERNAL://127.0.0.1:9092"),
        ("DOCKER://0.0.0.0:29092", "DOCKER://host.docker.internal:29092"),
    ]
    assert found.inter_broker == "INTERNAL"


@pytest.mark.row(153, 155)
def test_what_has_no_counterpart_is_ignored_with_a_note(tmp_path: Path) -> None:
    notes = started(tmp_path).warnings
    for word in ("ZooKeeper", "there is no JMX", "a cluster of its own", "everybody may do everything"):
        assert any(word in note for note in notes), word
    assert not any("is not an option" in note for note in notes)


def test_a_folder_that_knows_its_cluster_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    assert started(tmp_path).settings[keys.CLUSTER_ID] == ""


@pytest.mark.row(147)
def test_access_control_without_super_users_is_warned_of(tmp_path: Path) -> None:
    notes = started(tmp_path, KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND="false").warnings
    assert any("super.users is empty" in note for note in notes)


@pytest.mark.row(154)
def test_levels_of_kafkas_loggers_reach_the_parts_that_do_the_same_here() -> None:
    levels, notes = read_levels(SERVICE)
    assert levels == {
        "controller": "INFO",
        "kafka.producer.async.DefaultEventHandler": "INFO",
        "broker.metadata.replicas": "WARNING",
    }
    assert notes == []
    assert read_levels({"KAFKA_LOG4J_LOGGERS": "controller.raft=trace"})[0] == {"controller.raft": "DEBUG"}


@pytest.mark.row(154)
def test_a_level_nobody_knows_is_reported() -> None:
    levels, (note,) = read_levels({"KAFKA_LOG4J_LOGGERS": "kafka.controller=LOUD"})
    assert levels == {}
    assert "kafka.controller=LOUD is ignored" in note


@pytest.mark.row(154)
def test_the_root_level() -> None:
    assert root_level({"KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN"}, "INFO") == "WARNING"
    assert root_level({}, "INFO") == "INFO"


@pytest.mark.row(147)
def test_an_authorizer_that_does_not_exist_here_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**SERVICE, "KAFKA_AUTHORIZER_CLASS_NAME": "com.example.Mine"}.items():
        monkeypatch.setenv(name, value)
    assert main(["node", "--set", f"log.dirs={tmp_path}"]) == EXIT_CONFIG
    assert "StandardAuthorizer" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
