"""Connections of clients that have used up a quota: answered first, held then."""

import logging
from typing import Any

import pytest
from immutables import Map

from rookery.broker.server.client import Call
from rookery.broker.server.pending import Pending
from rookery.core.metadata.client_quotas import CLIENT_ID, IP, Quotas
from rookery.core.metadata.image import QuotaEntity
from rookery.core.wire.apis.metadata import METADATA
from rookery.core.wire.header import read_response_header
from tests.unit.broker.server.rig import Rig, RigClient, answer, frame_of


def quota(type: str, name: str | None, key: str, value: float) -> Quotas:
    return Map({(QuotaEntity(type, name),): Map({key: value})})


TEN_PERCENT = quota(CLIENT_ID, "rig", "request_percentage", 10)
"""A second of the loop's time in ten."""


class Work:
    """Requests named work-N take so many hundredths of a second; those with a '!' are answered when told to."""

    def __init__(self) -> None:
        self.rig = Rig(self.script)
        self.pending: dict[str, Pending[Any]] = {}
        self.shared = answer("shared")

    def script(self, name: str, call: Call) -> Any:
        self.rig.scheduler.now += int(name.partition("-")[2] or 0) / 100
        if "!" in name:
            self.pending[name] = Pending(blocks=False)
            return self.pending[name]
        if "none" in name:
            return None
        return self.shared if "shared" in name else answer(name)


def told(client: RigClient) -> list[tuple[str, int]]:
    """The answers that have left, each with the time it says the client is held."""
    responses = []
    for frame in client.transport.take_frames():
        _, body = read_response_header(METADATA, 12, frame)
        response = METADATA.decode_response(12, frame, body)
        responses.append((response.cluster_id or "", response.throttle_time_ms))
    return responses


def test_line_10_the_answer_leaves_at_once_and_then_nothing_is_served_for_the_time_it_reported() -> None:
    work = Work()
    work.rig.quotas.apply(TEN_PERCENT)
    client, other = work.rig.client(), work.rig.client()
    client.receive(frame_of("work-90") + frame_of("work-15") + frame_of("held"))
    work.rig.scheduler.run()
    ((_, none), (_, delay_ms)) = told(client)
    assert none == 0
    assert delay_ms in (500, 501), "1.05 s of work in 10 s, where 1 s may be"
    other.receive(frame_of("other"))
    assert told(other) == [("other", delay_ms)], "the quota is the client id's, but what has come is answered"
    work.rig.scheduler.advance(0.49)
    assert told(client) == []
    assert work.rig.handler.handled == ["work-90", "work-15", "other"]
    work.rig.scheduler.advance(0.02)
    assert [name for name, _ in told(client)] == ["held"]


def test_line_10_a_held_connection_stops_reading() -> None:
    work = Work()
    work.rig.quotas.apply(TEN_PERCENT)
    client = work.rig.client()
    client.receive(frame_of("work-200"))
    client.receive(frame_of("large", filler=200_000))
    assert client.in_network, "no more is read than shows that the client is there"
    assert not client.transport.reading
    work.rig.scheduler.advance(1.1)
    assert "large" in client.answers()


def test_what_is_awaited_leaves_while_the_connection_rests_and_adds_to_its_rest() -> None:
    work = Work()
    work.rig.quotas.apply(TEN_PERCENT)
    client = work.rig.client()
    client.receive(frame_of("!-95") + frame_of("work-150") + frame_of("held"))
    work.rig.scheduler.run()
    assert told(client) == [], "it stands behind the first"
    work.rig.scheduler.advance(0.5)
    work.pending["!-95"].complete(answer("first"))
    work.rig.scheduler.run()
    assert told(client) == [("first", 1000), ("work-150", 1000)]
    work.rig.scheduler.advance(0.99)
    assert work.rig.handler.handled == ["!-95", "work-150"]
    work.rig.scheduler.advance(0.02)
    assert [name for name, _ in told(client)] == ["held"]


def test_line_10_what_has_no_answer_costs_no_time() -> None:
    work = Work()
    work.rig.quotas.apply(TEN_PERCENT)
    client = work.rig.client()
    client.receive(frame_of("none-500") + frame_of("next"))
    work.rig.scheduler.run()
    assert told(client) == [("next", 0)]


def test_an_answer_made_for_all_stays_as_it_is() -> None:
    work = Work()
    work.rig.quotas.apply(TEN_PERCENT)
    client = work.rig.client()
    client.receive(frame_of("shared-200"))
    assert told(client) == [("shared", 1000)]
    assert work.shared.throttle_time_ms == 0


def test_quotas_may_come_and_go_while_answers_are_awaited() -> None:
    work = Work()
    client = work.rig.client()
    client.receive(frame_of("!-200"))
    work.rig.quotas.apply(TEN_PERCENT)
    work.pending["!-200"].complete(answer("first"))
    work.rig.scheduler.run()
    assert told(client) == [("first", 1000)]
    work.rig.quotas.apply(Map())
    client.receive(frame_of("work-200"))
    assert told(client) == [], "what was told holds"
    work.rig.scheduler.advance(1.1)
    assert told(client) == [("work-200", 0)]


def test_a_held_client_that_leaves_leaves_nothing_behind() -> None:
    work = Work()
    work.rig.quotas.apply(TEN_PERCENT)
    timers = work.rig.scheduler.timers
    client = work.rig.client()
    client.receive(frame_of("work-200"))
    assert work.rig.scheduler.timers == timers + 1
    client.leave()
    assert work.rig.scheduler.timers == timers


def test_holds_are_counted() -> None:
    work = Work()
    work.rig.quotas.apply(TEN_PERCENT)
    client = work.rig.client()
    client.receive(frame_of("work-200"))
    throttled = work.rig.metrics.route("Metadata").times("throttle")
    assert (throttled.count, throttled.sum_s) == (1, 1.0)


def test_who_connects_too_often_is_left_waiting_and_closed(caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    work.rig.quotas.apply(quota(IP, "10.0.0.9", "connection_creation_rate", 1))
    clients = [work.rig.client() for _ in range(12)]
    assert all(client.is_open for client in clients)
    for client in clients:
        client.receive(frame_of("hello"))
    assert [len(client.answers()) for client in clients] == [1] * 10 + [0] * 2
    assert work.rig.limits.count == 12, "those that wait count as connections"
    work.rig.scheduler.advance(1.01)
    assert [client.is_open for client in clients] == [True] * 10 + [False] * 2
    for client in clients:
        client.leave()
    assert work.rig.limits.count == 0
    refused = [record for record in caplog.records if "connection.refused" in record.getMessage()]
    assert len(refused) == 2
    assert all(record.levelno == logging.WARNING for record in refused)
    assert work.rig.client("10.0.0.10").is_open
