"""Rates and sums of the nodes' metrics."""

from rookery.client.core_metrics import COLUMNS, Look, read_samples, rows

PAGE = r"""
# HELP kafka_server_brokertopicmetrics_messagesin_total Records appended.
kafka_server_brokertopicmetrics_messagesin_total{topic="a\"b,}"} 10.0
kafka_server_brokertopicmetrics_messagesin_total{topic="b"} 5
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} 7.25
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} NaN
kafka_server_replicamanager_leadercount 3 1700000000000
kafka_controller_kafkacontroller_offlinepartitionscount 2
kafka_consumergroup_lag_sum{consumergroup="g",topic="b"} 4
what is this
nonsense{} abc
"""


def test_a_page_is_read() -> None:
    samples = read_samples(PAGE)
    assert len(samples) == 7
    assert samples[0].labels == {"topic": r"a\"b,}"}
    assert samples[4].value == 3.0


def test_rates_of_a_node_and_of_all() -> None:
    def look(at_s: float, records: int) -> Look:
        more = f"kafka_server_brokertopicmetrics_messagesin_total{{topic=\"c\"}} {records}\n"
        return Look(at_s, read_samples(PAGE + more))

    first, second, both = rows({1: look(0, 0), 2: look(0, 50), 3: look(0, 0)}, {1: look(2, 30), 2: look(1, 20)})
    assert (first["node"], first["messages-in/s"], first["produce-p99-ms"], first["leaders"]) == (1, 15.0, 7.2, 3)
    assert first["fetch-p99-ms"] == 0.0, "nothing was measured"
    assert second["messages-in/s"] == 0.0, "it was started again in between"
    assert (both["node"], both["messages-in/s"], both["lag"], both["leaders"]) == ("all", 15.0, 8, 6)
    assert (both["produce-p99-ms"], both["offline"]) == (7.2, 2), "of the slowest; counted by each controller"
    assert tuple(both) == COLUMNS
    assert rows({1: look(0, 0)}, {}) == []
