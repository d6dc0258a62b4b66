"""Options of a broker that Kafka can change while it runs and that have no effect here.

They are accepted and stored, so that scripts written for Kafka go on, and each is answered with a note: its `doc` says
why the value does not matter. Options about security are not among them, because an operator who sets one relies on it.
"""

from rookery.core.config.options import (
    INT_MAX,
    LONG_MAX,
    Boolean,
    Double,
    Int,
    Kind,
    Option,
    Table,
    UpdateMode,
    WordList,
    int32,
)

_TIERED = "there is no tiered storage; the value is ignored"
_CLEANER = "the cleaner works in one thread with buffers of its own; the value is ignored"


def _option(name: str, kind: Kind[object], default: object, why: str) -> Option[object]:
    return Option(name, kind, default, why, reach=UpdateMode.CLUSTER_WIDE)


TABLE = Table(
    [
        _option("num.network.threads", int32(1), 3, "one event loop serves all connections; the value is ignored"),
        _option("num.io.threads", int32(1), 8, "one event loop handles all requests; the value is ignored"),
        _option("background.threads", int32(1), 10, "background work has its own fixed threads; the value is ignored"),
        _option(
            "num.replica.fetchers", int32(), 1, "one connection per leader carries all partitions; the value is ignored"
        ),
        _option("metric.reporters", WordList(), (), "scrape /metrics at rookery.http.listener; the value is ignored"),
        _option(
            "max.connection.creation.rate",
            int32(0),
            INT_MAX,
            "the quota connection_creation_rate limits new connections by address; the value is ignored",
        ),
        _option("log.preallocate", Boolean(), False, "segments grow as they are written; the value is ignored"),
        _option("log.cleaner.threads", int32(0), 1, _CLEANER),
        _option("log.cleaner.io.buffer.size", int32(0), 524_288, _CLEANER),
        _option("log.cleaner.io.buffer.load.factor", Double(), 0.9, _CLEANER),
        _option("log.local.retention.ms", Int(-2), -2, _TIERED),
        _option("log.local.retention.bytes", Int(-2), -2, _TIERED),
        _option("remote.fetch.max.wait.ms", int32(1), 500, _TIERED),
        _option("remote.list.offsets.request.timeout.ms", Int(1), 30_000, _TIERED),
        _option("remote.log.index.file.cache.total.size.bytes", Int(1), 1 << 30, _TIERED),
        _option("remote.log.manager.copier.thread.pool.size", int32(1), 10, _TIERED),
        _option("remote.log.manager.copy.max.bytes.per.second", Int(1), LONG_MAX, _TIERED),
        _option("remote.log.manager.expiration.thread.pool.size", int32(1), 10, _TIERED),
        _option("remote.log.manager.fetch.max.bytes.per.second", Int(1), LONG_MAX, _TIERED),
        _option("remote.log.reader.threads", int32(1), 10, _TIERED),
    ]
)

UNSUPPORTED: dict[str, str] = {
    **{option.name: option.doc for option in TABLE},
    "zookeeper.connect": "there is no ZooKeeper, the metadata quorum replaces it; the value is ignored",
    "log4j.loggers": "set by KAFKA_LOG4J_LOGGERS only",
    "jmx.port": "there is no JMX: scrape /metrics at rookery.http.listener; the value is ignored",
    "jmx.hostname": "there is no JMX: scrape /metrics at rookery.http.listener; the value is ignored",
    "remote.log.storage.system.enable": "there is no tiered storage; the value is ignored",
    "leader.imbalance.per.broker.percentage": "every leader moves back if it can, as in Kafka 4; the value is ignored",
}
"""Keys of Kafka that are known but have no effect here, with the consequence."""
