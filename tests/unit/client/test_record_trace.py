"""The path of a record, from facts."""

from dataclasses import replace

from rookery.client.admin.types import RecordDescription
from rookery.client.record_trace import TraceFacts, steps
from rookery.client.types import TopicPartition
from rookery.core.flight_recorder import Event

RECORD = RecordDescription(5, 1_700_000_000_000, False, 3, 4, 6, -1, False, False, b"k", 10)
FACTS = TraceFacts(TopicPartition("t", 0), 5, 0, 9, 9, 1, 3, (1, 2, 3), (1, 2), RECORD, {3: 6}, {"g": 6, "h": 5})


def told(facts: TraceFacts) -> list[tuple[str, str, str]]:
    return [(step.step, step.who, step.what.partition(":")[0]) for step in steps(facts)]


def test_a_committed_record_and_a_replica_that_lacks_it() -> None:
    assert told(FACTS) == [
        ("appended", "broker 1", "the producer's clock; in the batch 4 to 6, leader epoch 3"),
        ("replicated", "broker 2", "has it"),
        ("replicated", "broker 3", "does not have it"),
        ("committed", "in sync 1,2", "yes"),
        ("read", "group g", "committed past it"),
        ("read", "group h", "not yet"),
    ]
    assert steps(FACTS)[0].when == "2023-11-14T22:13:20.000Z"
    assert "has it; it is out of sync" in [step.what for step in steps(replace(FACTS, behind={3: 1}))]
    assert "did not say" in steps(replace(FACTS, behind={}))[2].what


def test_a_record_that_is_not_committed() -> None:
    found = told(replace(FACTS, record=None, high_watermark=5, groups={}))
    assert found[0] == ("appended", "broker 1", "nothing at 5 can be read yet")
    assert ("replicated", "broker 2", "is in sync, but has not confirmed it") in found
    assert ("committed", "in sync 1,2", "no") in found
    assert found[-1][1] == "no group"


def test_a_record_in_an_open_transaction_is_hidden() -> None:
    record = RECORD._replace(producer_id=7, transactional=True)
    found = steps(replace(FACTS, record=record, stable=4))
    assert "producer id 7, in a transaction" in found[0].what
    assert "hidden from read_committed" in next(step.what for step in found if step.step == "visible")


def test_deleted_and_compacted_records() -> None:
    assert told(replace(FACTS, log_start=6, record=None))[0][0] == "deleted"
    assert "compacted" in steps(replace(FACTS, record=None))[0].what


def test_the_leader_of_an_earlier_epoch_is_known_from_events() -> None:
    event = Event(1, RECORD.timestamp - 5, 3, "INFO", "leadership.begun", {"topic": "t", "partition": 0, "epoch": 2})
    later = Event(2, RECORD.timestamp + 5, 1, "INFO", "leader.elected", {"topic": "t", "leader": 1, "epoch": 3})
    old = replace(FACTS, record=RECORD._replace(leader_epoch=2), events=(event, later))
    found = steps(old)
    assert found[0].who == "broker 3"
    assert [step.what for step in found if step.step == "event"] == ["leader.elected leader=1 epoch=3"]
    assert steps(replace(old, events=()))[0].who == "the leader of epoch 2"
