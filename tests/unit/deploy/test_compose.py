"""The compose files: every node's settings load as they stand, and the cluster they describe is the one promised."""

import base64
from typing import Any

import pytest

from rookery.broker.node.settings import load_settings
from rookery.core.config import node as keys
from rookery.core.config.listeners import listeners_of
from rookery.core.config.loading import Loaded, load, read_environment
from rookery.core.config.properties import read_properties
from tests.unit.deploy.compose import DEPLOY, FILES, environment, nodes, read

NODES = [(file, service) for file in FILES for service in nodes(file)]


def settings_of(body: dict[str, Any]) -> Loaded:
    return load_settings(DEPLOY / "node.properties", environment(body))


@pytest.mark.row(152)
@pytest.mark.parametrize(("file", "service"), NODES)
def test_every_setting_is_known_and_allowed(file: str, service: str) -> None:
    body = nodes(file)[service]
    assert settings_of(body).warnings == ()
    for variable in environment(body):
        assert variable == "CLUSTER_ID" or variable == _variable(next(iter(read_environment({variable: ""})[0])))


def _variable(key: str) -> str:
    """The variable that sets `key` in Apache Kafka's image."""
    return "KAFKA_" + key.replace("-", "\0").replace("_", "__").replace(".", "_").replace("\0", "___").upper()


@pytest.mark.row(156)
@pytest.mark.parametrize("file", FILES)
def test_brokers_listen_for_each_other_and_for_the_outside(file: str) -> None:
    seen = set()
    for service, body in nodes(file).items():
        settings = settings_of(body).settings
        if "broker" not in settings[keys.PROCESS_ROLES]:
            continue
        found = listeners_of(settings)
        assert found.inter_broker == "INTERNAL"
        assert str(found.client("INTERNAL").advertised) == f"INTERNAL://{service}:19092"
        outside = found.client("EXTERNAL")
        assert f"{outside.advertised.port}:{outside.bind.port}" in body["ports"]
        seen.add(outside.advertised.port)
    assert seen == {9092, 9093, 9094}


@pytest.mark.parametrize("file", FILES)
def test_new_and_internal_topics_survive_the_loss_of_a_node(file: str) -> None:
    for body in nodes(file).values():
        settings = settings_of(body).settings
        assert settings[keys.DEFAULT_REPLICATION_FACTOR] == 3
        assert settings[keys.MIN_INSYNC_REPLICAS] == 2
        assert settings[keys.OFFSETS_TOPIC_REPLICATION_FACTOR] == 3


@pytest.mark.parametrize("file", FILES)
def test_the_voters_are_the_controllers_and_everybody_finds_them(file: str) -> None:
    bodies = nodes(file)
    loaded = {service: settings_of(body).settings for service, body in bodies.items()}
    expected = {
        f"{settings[keys.NODE_ID]}@{service}:{listeners_of(settings).controllers[0].bind.port}"
        for service, settings in loaded.items()
        if "controller" in settings[keys.PROCESS_ROLES]
    }
    assert len(expected) == 3
    addresses = {voter.partition("@")[2] for voter in expected}
    for settings in loaded.values():
        if "controller" in settings[keys.PROCESS_ROLES]:
            assert set(settings[keys.CONTROLLER_QUORUM_VOTERS]) == expected
        else:
            assert set(settings[keys.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]) == addresses
    assert len({settings[keys.NODE_ID] for settings in loaded.values()}) == len(loaded)
    assert len({settings[keys.CLUSTER_ID] for settings in loaded.values()}) == 1


@pytest.mark.parametrize("file", FILES)
def test_data_outlives_containers_and_a_stop_has_time_to_hand_over(file: str) -> None:
    volumes = read(file)["volumes"]
    for service, body in nodes(file).items():
        (volume,) = body["volumes"]
        name, path = volume.split(":")
        assert name == service
        assert name in volumes
        assert settings_of(body).settings[keys.LOG_DIRS][0].startswith(path + "/")
        assert body["stop_grace_period"] == "40s"
        assert "restart" not in body  # a killed node stays dead until somebody starts it


@pytest.mark.parametrize("file", FILES)
def test_prometheus_and_grafana_come_with_the_metrics_profile(file: str) -> None:
    services = read(file)["services"]
    for name in ("prometheus", "grafana"):
        assert services[name]["profiles"] == ["metrics"]
        for volume in services[name]["volumes"]:
            source = volume.split(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).exists()


def test_the_images_own_settings_are_known() -> None:
    loaded = load([("file", read_properties((DEPLOY / "node.properties").read_text()))])
    assert loaded.warnings == ()
    assert loaded.settings[keys.HTTP_LISTENER] == "0.0.0.0:8080"


@pytest.mark.parametrize("file", FILES)
def test_the_cluster_id_is_one(file: str) -> None:
    for body in nodes(file).values():
        text = environment(body)["CLUSTER_ID"]
        assert len(base64.urlsafe_b64decode(text + "==")) == 16


def test_the_spark_profile_is_a_master_two_workers_and_a_pipeline_on_them() -> None:
    services = read("compose.yaml")["services"]
    spark = {name for name, body in services.items() if body.get("profiles") == ["spark"]}
    assert spark == {"spark-master", "spark-worker-1", "spark-worker-2", "pipeline"}
    assert all("lake:/data" in services[name]["volumes"] for name in spark), "checkpoint and output are shared"
    assert services["pipeline"]["command"][-1] == "/pipelines/orders.toml"
    text = (DEPLOY / "pipelines" / "orders.toml").read_text()
    assert all(f"{service}:19092" in text for service in nodes("compose.yaml"))
    assert 'master = "spark://spark-master:7077"' in text
