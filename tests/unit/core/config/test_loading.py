import pytest

from rookery.core.config import node, topic
from rookery.core.config.loading import load, read_environment
from rookery.core.config.options import ConfigError, Settings, Table, as_text
from rookery.core.config.properties import read_overrides, read_properties
from rookery.core.config.topic import topic_defaults, topic_settings


def test_later_layers_win() -> None:
    loaded = load(
        [
            ("file", {"node.id": "1", "num.partitions": "3"}),
            ("environment", {"num.partitions": "4"}),
            ("--set", {"num.partitions": "5"}),
        ]
    )
    assert loaded.settings[node.NUM_PARTITIONS] == 5
    assert loaded.settings[node.NODE_ID] == 1
    assert loaded.sources == {"node.id": "file", "num.partitions": "--set"}
    assert loaded.warnings == ()


def test_what_nobody_set_has_kafkas_default() -> None:
    settings = load([]).settings
    assert settings[node.REPLICA_LAG_TIME_MAX_MS] == 30_000
    assert settings[node.BROKER_SESSION_TIMEOUT_MS] == 9_000
    assert not settings.is_set(node.BROKER_SESSION_TIMEOUT_MS)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("num.partitions", "0", "a whole number from 1 to 2147483647 is needed"),
        ("num.partitions", "many", "a whole number from 1"),
        ("auto.create.topics.enable", "yes", "true or false is needed"),
        ("process.roles", "observer", "a list of broker, controller"),
        ("compression.type", "brotli", "one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "a number from 0 to 1"),
    ],
)
def test_a_wrong_value_names_key_value_and_what_is_allowed(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load([("file", {key: value})])
    assert caught.value.key == key
    assert key in str(caught.value)
    assert repr(value) in str(caught.value)
    assert says in str(caught.value)


def test_an_unknown_key_is_warned_of_with_the_nearest_name() -> None:
    loaded = load([("file", {"num.partition": "3", "utterly.unheard": "1"})])
    assert loaded.warnings == (
        "num.partition is not an option and is ignored; did you mean num.partitions?",
        "utterly.unheard is not an option and is ignored",
    )


@pytest.mark.row(82)
def test_a_known_key_without_effect_is_warned_of_with_the_consequence() -> None:
    (warning,) = load([("file", {"zookeeper.connect": "zk:2181"})]).warnings
    assert "there is no ZooKeeper" in warning


def test_old_names_set_the_same_option() -> None:
    loaded = load([("file", {"broker.id": "7", "log.dir": "/data"})])
    assert loaded.settings[node.NODE_ID] == 7
    assert loaded.settings[node.LOG_DIRS] == ("/data",)


@pytest.mark.parametrize(
    ("key", "variable"),
    [
        ("log.dirs", "KAFKA_LOG_DIRS"),
        ("some_key.with-dash", "KAFKA_SOME__KEY_WITH___DASH"),
        ("controller.quorum.voters", "KAFKA_CONTROLLER_QUORUM_VOTERS"),
    ],
)
def test_environment_names_are_those_of_kafkas_image(key: str, variable: str) -> None:
    values, notes = read_environment({variable: "x", "PATH": "/bin"})
    assert values == {key: "x"}
    assert notes == []


@pytest.mark.row(153)
def test_variables_that_are_no_options_are_ignored_with_a_note() -> None:
    values, notes = read_environment(
        {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_JMX_OPTS": "x", "CLUSTER_ID": "abc"}
    )
    assert values == {"rookery.cluster.id": "abc"}
    assert notes == [
        "KAFKA_HEAP_OPTS is ignored: there is no JVM here",
        "KAFKA_JMX_OPTS is ignored: there is no JMX: scrape /metrics at rookery.http.listener",
    ]


def test_properties_text() -> None:
    text = "# comment\n! also\nnode.id = 3\nlisteners=A://:1,\\\n  B://:2\nkey: colon\n\n"
    assert read_properties(text) == {"node.id": "3", "listeners": "A://:1,B://:2", "key": "colon"}
    with pytest.raises(ConfigError, match="line 2"):
        read_properties("a=1\nnonsense")


def test_overrides_need_key_and_value() -> None:
    assert read_overrides(["a=b=c"]) == {"a": "b=c"}
    with pytest.raises(ConfigError, match="key=value is needed"):
        read_overrides(["a"])


@pytest.mark.row(42)
def test_retention_in_milliseconds_wins_over_minutes_over_hours() -> None:
    def retention(**keys: str) -> int:
        layer = {f"log.retention.{unit}": value for unit, value in keys.items()}
        return topic_defaults(load([("file", layer)]).settings)[topic.RETENTION_MS]

    assert retention() == 7 * 24 * 3600 * 1000
    assert retention(hours="2") == 2 * 3_600_000
    assert retention(hours="2", minutes="3") == 3 * 60_000
    assert retention(hours="2", minutes="3", ms="4") == 4
    assert retention(hours="-1") == -1


def test_a_topics_own_override_wins_over_the_brokers_default() -> None:
    defaults = topic_defaults(load([("file", {"min.insync.replicas": "2"})]).settings)
    assert topic_settings(defaults, {})[topic.MIN_INSYNC_REPLICAS] == 2
    assert topic_settings(defaults, {"min.insync.replicas": "3"})[topic.MIN_INSYNC_REPLICAS] == 3
    with pytest.raises(ConfigError, match=r"min\.insync\.replicas='0'"):
        topic_settings(defaults, {"min.insync.replicas": "0"})


@pytest.mark.parametrize("table", [node.TABLE, topic.TABLE])
def test_every_default_is_a_value_its_own_kind_could_have_read(table: Table) -> None:
    unset = {"node.id", "log.retention.ms", "log.retention.minutes"}
    for option in table:
        if option.name in unset:
            continue
        assert option.parse(as_text(option.default) or "") == option.default or option.default in ("", ())
        assert option.doc.endswith("."), option.name


def test_settings_without_anything_given() -> None:
    assert Settings(topic.TABLE)[topic.CLEANUP_POLICY] == ("delete",)


def test_settings_under_what_was_set_while_running() -> None:
    """Keys without effect are stored among the dynamic ones; a broker that acts by them must not stumble."""
    settings = Settings(node.TABLE).overlaid(
        {"background.threads": "8", "log.retention.ms": "5"}, {"log.retention.ms": "7"}
    )
    assert settings[node.LOG_RETENTION_MS] == 7
    assert settings.overlaid({"background.threads": "8"}) is settings
