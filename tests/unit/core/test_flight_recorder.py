"""The ring of events: bounded, resumable by id, restored from lines that may be damaged."""

import json

from rookery.core.flight_recorder import (
    EVENT_CHARS_MAX,
    Event,
    EventRing,
    Selection,
    concerns,
    is_recorded,
    read_event,
)


def filled(size: int, events: int, begin_ms: int = 1000) -> EventRing:
    ring = EventRing(1, size)
    for number in range(events):
        ring.add(begin_ms + number, "INFO", "isr.changed", {"topic": "t", "partition": number})
    return ring


def test_only_the_last_ones_are_kept_and_the_ring_says_what_went() -> None:
    ring = filled(3, 5)
    assert [event.fields["partition"] for event in ring.after(-1)] == [2, 3, 4]
    assert ring.dropped == 1001
    assert len(ring) == 3


def test_ids_rise_when_the_clock_does_not() -> None:
    ring = EventRing(1)
    ids = [ring.add(at, "INFO", "a", {}).id for at in (1000, 1000, 400, 2000)]
    assert ids == [1000, 1001, 1002, 2000]


def test_a_reader_goes_on_after_the_last_id_it_saw() -> None:
    ring = filled(10, 6)
    first = ring.after(1001, limit=2)
    assert [event.id for event in first] == [1002, 1003]
    assert [event.id for event in ring.after(first[-1].id)] == [1004, 1005]
    assert not ring.after(1005)
    assert [event.id for event in ring.latest(2)] == [1004, 1005]


def test_lines_bring_back_the_ring_and_damaged_ones_are_left_out() -> None:
    lines = [event.line() for event in filled(10, 4).after(-1)]
    again = EventRing(1, 10)
    ids = ('"x"', "1e999", "-1", "null")
    of_ids = [f'{{"id":{id},"at_ms":1,"node":1,"level":"I","event":"e","fields":{{}}}}' for id in ids]
    nonsense = ["", "{", "[1]", "null", '{"id":1}', *of_ids]
    assert again.restore([lines[0], *nonsense, *lines[1:], lines[1]]) == len(nonsense) + 1
    assert [event.line() for event in again.after(-1)] == lines
    assert again.add(1, "INFO", "b", {}).id == 1004


def test_an_event_of_any_size_and_kind_fits_a_line() -> None:
    ring = EventRing(1)
    event = ring.add(1, "INFO", "big", {"reason": "x" * 100_000})
    assert len(event.line()) < EVENT_CHARS_MAX
    odd = ring.add(2, "INFO", "odd", {"value": {1, 2}.__class__, "text": "a\nb\u2028"})
    assert "\n" not in odd.line()
    assert read_event(odd.line()).fields["text"] == "a\nb\u2028"
    assert json.loads(odd.line())["node"] == 1


def test_events_are_chosen_by_name_topic_and_group() -> None:
    ring = EventRing(1)
    ring.add(1, "INFO", "isr.changed", {"topic": "a", "partition": 0})
    ring.add(2, "INFO", "segments.deleted", {"partition": "a-1"})
    ring.add(3, "INFO", "leader.elected", {"topic": "a-1", "partition": 0})
    ring.add(4, "INFO", "node.ready", {"node": 1})
    ring.add(5, "INFO", "group.rebalance", {"group": "a", "what": "joined"})
    assert [event.id for event in ring.after(-1, selection=Selection(group="a"))] == [5]
    assert [event.id for event in ring.after(-1, selection=Selection(topic="a"))] == [1, 2]
    assert [event.id for event in ring.after(-1, selection=Selection(("isr.", "leader.")))] == [1, 3]
    about = Event(1, 1, 1, "INFO", "segments.deleted", {"partition": "a-1"})
    assert concerns(about, "a", 1)
    assert not concerns(about, "a", 0)


def test_what_clients_can_cause_at_will_is_not_recorded() -> None:
    assert not is_recorded("authentication.failed")
    assert not is_recorded("connection.refused")
    assert is_recorded("leader.elected")
    assert is_recorded("group.rebalance")
