"""The calls that kafka-ui makes, by the Java client against three nodes."""

from collections.abc import Iterator

import pytest

from tests import needs
from tests.cluster.local import LocalCluster, wait_for
from tests.interop.aim import aimed_cluster
from tests.interop.java.admin import JavaAdmin, JavaAdminError

ELR = "eligible.leader.replicas.version"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with aimed_cluster(3) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[JavaAdmin]:
    asked = JavaAdmin(cluster.bootstrap)
    yield asked
    asked.close()


@pytest.fixture(scope="module")
def topic(admin: JavaAdmin, cluster: LocalCluster) -> str:
    admin("createTopic", "orders", 2)
    cluster.wait_until_known("orders", 2)
    admin("produce", "orders", 0, "a", "b", "c")
    return "orders"


@pytest.mark.row(84)
def test_the_cluster_is_described(admin: JavaAdmin, cluster: LocalCluster) -> None:
    found = admin("describeCluster")
    assert (found["id"], found["nodes"]) == (cluster.file.cluster_id, [1, 2, 3])
    assert found["controller"] in (1, 2, 3)
    assert found["operations"] > 0


@pytest.fixture(scope="module")
def features(admin: JavaAdmin) -> dict[str, list[int]]:
    """What each broker tells before any change, and after all changes that are taken back."""
    return dict(admin("describeFeatures"))


def test_features_go_up_and_down(admin: JavaAdmin, features: dict[str, list[int]]) -> None:
    """Levels that all brokers understand are agreed on by all of them; going back has to be asked for."""
    lowest, highest, agreed = features[ELR]
    assert (lowest, highest, agreed) == (0, 1, 1)
    admin("updateFeature", ELR, 0, "SAFE_DOWNGRADE", "validate only")
    assert admin("describeFeatures")[ELR] == [0, 1, 1]
    admin("updateFeature", ELR, 0, "SAFE_DOWNGRADE")
    wait_for(lambda: admin("describeFeatures")[ELR] == [0, 1, 0], "every broker to know")
    admin("updateFeature", ELR, 1, "UPGRADE")
    wait_for(lambda: admin("describeFeatures")[ELR] == [0, 1, 1], "every broker to know")


def test_wrong_levels_of_features_are_refused(admin: JavaAdmin, features: dict[str, list[int]]) -> None:
    lowest, highest, agreed = features["metadata.version"]
    assert lowest <= agreed <= highest
    for feature, level, way in (
        ("metadata.version", highest + 1, "UPGRADE"),
        ("metadata.version", lowest - 1, "SAFE_DOWNGRADE"),
        ("no.such.feature", 1, "UPGRADE"),
        (ELR, 2, "UPGRADE"),
    ):
        with pytest.raises(JavaAdminError, match="InvalidUpdateVersionException"):
            admin("updateFeature", feature, level, way)
    wait_for(lambda: admin("describeFeatures") == features, "every broker to tell what it told before")


def test_the_metadata_quorum_is_described(admin: JavaAdmin, cluster: LocalCluster) -> None:
    found = admin("describeMetadataQuorum")
    assert found["leader"] == cluster.active_controller()
    assert (found["voters"], found["nodes"], found["known"]) == ([1, 2, 3], [1, 2, 3], True)


def test_configs_of_brokers_have_what_tools_look_for(admin: JavaAdmin) -> None:
    found = admin("describeConfigs", "BROKER", "2")
    assert found["delete.topic.enable"][0] == "true"
    assert found["node.id"][:2] == ["2", "STATIC_BROKER_CONFIG"]


def test_configs_of_brokers_have_a_version(admin: JavaAdmin) -> None:
    needs.own_server("Kafka 4 has no inter.broker.protocol.version any more, and old tools show no version then")
    found = admin("describeConfigs", "BROKER", "2")
    version, _, _, read_only, _, documented = found["inter.broker.protocol.version"]
    assert (float(version) >= 2.3, read_only, documented) == (True, True, True)


def test_configs_of_topics_change(admin: JavaAdmin, topic: str) -> None:
    before = admin("describeConfigs", "TOPIC", topic)
    assert before["retention.ms"][:3] == ["86400000", "DYNAMIC_TOPIC_CONFIG", "LONG"]
    assert before["segment.bytes"][1] == "DEFAULT_CONFIG"
    longer = "172800000"  # nothing may be deleted meanwhile: what is in the topic is looked at later
    admin("incrementalAlterConfigs", "TOPIC", topic, "retention.ms", longer)
    wait_for(lambda: admin("describeConfigs", "TOPIC", topic)["retention.ms"][0] == longer, "every broker to know")
    with pytest.raises(JavaAdminError, match="InvalidConfigurationException"):
        admin("incrementalAlterConfigs", "TOPIC", topic, "retention.ms", "soon")
    with pytest.raises(JavaAdminError, match="InvalidRequestException"):
        admin("incrementalAlterConfigs", "BROKER", "1", "log.dirs", "/elsewhere")


@pytest.mark.row(53, 76)
def test_topics_are_made_described_and_deleted(admin: JavaAdmin, cluster: LocalCluster) -> None:
    admin("createTopic", "short", 1)
    admin("createPartitions", "short", 3)
    cluster.wait_until_known("short", 3)
    assert "short" in admin("listTopics")
    described = admin("describeTopic", "short")
    assert len(described) == 3
    for _, leader, replicas, isr in described:
        assert (leader, sorted(replicas), isr) == (replicas[0], [1, 2, 3], [1, 2, 3])
    admin("deleteTopic", "short")
    cluster.wait_until_known("short", 0)
    assert "short" not in admin("listTopics")
    with pytest.raises(JavaAdminError, match="UnknownTopicOrPartitionException"):
        admin("describeTopic", "short")


def test_offsets_are_listed_and_records_deleted(admin: JavaAdmin, topic: str) -> None:
    assert admin("listOffsets", topic, 0)[:2] == [0, 3]
    assert admin("deleteRecords", topic, 0, 2) == 2
    assert admin("listOffsets", topic, 0)[:2] == [2, 3]


def test_log_dirs_of_all_brokers_are_described(admin: JavaAdmin, topic: str) -> None:
    partitions = [f"{topic}-0", f"{topic}-1"]
    everywhere = {str(broker): [[True, True, partitions]] for broker in (1, 2, 3)}
    wait_for(lambda: admin("describeLogDirs", topic) == everywhere, "each broker to have made its replicas")


def test_producers_of_a_partition_are_described(admin: JavaAdmin, topic: str) -> None:
    assert admin("describeProducers", topic, 0) == [[0, 2]]
    assert admin("describeProducers", topic, 1) == []


def test_acls_are_disabled_without_an_authorizer(admin: JavaAdmin) -> None:
    for call in (("describeAcls",), ("createAcl", "orders"), ("deleteAcls",)):
        with pytest.raises(JavaAdminError, match="SecurityDisabledException"):
            admin(*call)


def test_offsets_of_groups_are_set_shown_and_deleted(admin: JavaAdmin, topic: str) -> None:
    admin("alterGroupOffset", "readers", topic, 0, 2)
    admin("alterGroupOffset", "readers", topic, 1, 0)
    assert "readers" in admin("listGroups")
    assert admin("describeGroup", "readers") == "EMPTY"
    assert admin("listGroupOffsets", "readers") == {f"{topic}-0": 2, f"{topic}-1": 0}
    admin("deleteGroupOffset", "readers", topic, 1)
    assert admin("listGroupOffsets", "readers") == {f"{topic}-0": 2}
    admin("deleteGroup", "readers")
    assert "readers" not in admin("listGroups")


@pytest.mark.row(70, 71)
def test_partitions_move_and_leaders_are_elected(admin: JavaAdmin, topic: str) -> None:
    ((_, leader, replicas, _),) = [one for one in admin("describeTopic", topic) if one[0] == 1]
    admin("electLeaders", topic, 1)  # a broker that was late once may have lost its leadership
    wait_for(lambda: admin("describeTopic", topic)[1][1] == replicas[0], "the preferred leader")
    assert admin("electLeaders", topic, 1) == ["ElectionNotNeededException"]
    with pytest.raises(JavaAdminError, match="NoReassignmentInProgressException"):
        admin("reassign", topic, 1)
    turned = [*replicas[1:], replicas[0]]
    admin("reassign", topic, 1, *turned)
    wait_for(lambda: admin("listReassignments") == [], "the move to be over")
    wait_for(lambda: admin("describeTopic", topic)[1][2] == turned, "every broker to know")
    assert admin("electLeaders", topic, 1) in (["done"], ["ElectionNotNeededException"])
    wait_for(lambda: admin("describeTopic", topic)[1][1] == turned[0], "the preferred leader")
    assert leader != turned[0]


def test_client_quotas_are_set_found_and_removed(admin: JavaAdmin) -> None:
    admin("alterClientQuota", "client-id=reports", "producer_byte_rate", 1e6)
    admin("alterClientQuota", "client-id=reports", "request_percentage", 12.5)
    admin("alterClientQuota", "user,client-id=reports", "consumer_byte_rate", 2e6)
    admin("alterClientQuota", "ip=127.0.0.2", "connection_creation_rate", 5)
    admin("alterClientQuota", "user", "producer_byte_rate", 1, "check")
    expected = {
        "client-id=reports": {"producer_byte_rate": 1e6, "request_percentage": 12.5},
        "client-id=reports,user": {"consumer_byte_rate": 2e6},
        "ip=127.0.0.2": {"connection_creation_rate": 5.0},
    }
    wait_for(lambda: admin("describeClientQuotas", "all") == expected, "every broker to know")
    for asked, found in (
        (("contains", "client-id=*"), list(expected)[:2]),
        (("only", "client-id=reports"), ["client-id=reports"]),
        (("contains", "user"), ["client-id=reports,user"]),
    ):
        wait_for(
            lambda asked=asked, found=found: list(admin("describeClientQuotas", *asked)) == found,  # type: ignore[misc]
            f"{found} to be found by {asked}",
        )
    for entity, key, value in (
        ("client-id=reports", "no_such_quota", 1),
        ("client-id=reports", "producer_byte_rate", 1.5),
        ("client-id=reports", "producer_byte_rate", 0),
        ("client-id=reports", "connection_creation_rate", 1),
        ("ip=127.0.0.2,user=ann", "connection_creation_rate", 1),
        ("user=", "producer_byte_rate", 1),
    ):
        with pytest.raises(JavaAdminError, match="InvalidRequestException"):
            admin("alterClientQuota", entity, key, value)
    for entity, values in expected.items():
        for key in values:
            admin("alterClientQuota", entity, key)
    wait_for(lambda: admin("describeClientQuotas", "all") == {}, "every broker to know")
