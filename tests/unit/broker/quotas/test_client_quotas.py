"""Client quotas: whom they hold for, and how long who used too much is held."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from rookery.broker.quotas import usage
from rookery.broker.quotas.client_quotas import ClientQuotas, Limit, QuotaClient, limit_of, publish_quotas
from rookery.broker.quotas.usage import Window
from rookery.core.metadata.client_quotas import CLIENT_ID, IP, USER, Quotas, entity_of
from rookery.core.metadata.image import QuotaEntity
from rookery.core.metrics import Metrics, digest
from rookery.core.testing.clock import ManualClock

KEY = "producer_byte_rate"
ANN = QuotaClient("ann", "app")
Parts = tuple[tuple[str, str | None], ...]


def quotas_of(*entries: tuple[Parts, dict[str, float]]) -> Quotas:
    return Map(
        {entity_of(QuotaEntity(type, name) for type, name in parts): Map(values) for parts, values in entries}
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(monotonic=1000.0)


@pytest.fixture
def quotas(clock: ManualClock) -> ClientQuotas:
    return ClientQuotas(clock.monotonic)


# --- whom a quota holds for ---------------------------------------------------------------------------------

PRECEDENCE: tuple[tuple[Parts, QuotaClient], ...] = (
    (((USER, "ann"), (CLIENT_ID, "app")), QuotaClient("ann", "app")),
    (((USER, "ann"), (CLIENT_ID, None)), QuotaClient("ann", "app")),
    (((USER, "ann"),), QuotaClient("ann", "")),
    (((USER, None), (CLIENT_ID, "app")), QuotaClient("ann", "app")),
    (((USER, None), (CLIENT_ID, None)), QuotaClient("ann", "app")),
    (((USER, None),), QuotaClient("ann", "")),
    (((CLIENT_ID, "app"),), QuotaClient("", "app")),
    (((CLIENT_ID, None),), QuotaClient("", "app")),
)
"""Kafka's order, and who shares what such a quota allows."""


@given(there=st.sets(st.integers(0, len(PRECEDENCE) - 1)))
def test_the_quota_that_says_most_of_a_client_holds(there: set[int]) -> None:
    quotas = quotas_of(*((PRECEDENCE[place][0], {KEY: place + 1.0}) for place in there))
    limit = limit_of(quotas, ANN, KEY)
    if not there:
        assert limit is None
    else:
        first = min(there)
        assert limit == Limit(KEY, PRECEDENCE[first][1], first + 1.0)


def test_others_quotas_and_other_keys_do_not_hold() -> None:
    quotas = quotas_of(
        (((USER, "bob"),), {KEY: 1}),
        (((CLIENT_ID, "other"),), {KEY: 1}),
        (((USER, "ann"),), {"consumer_byte_rate": 1}),
        (((IP, "10.0.0.1"),), {"connection_creation_rate": 1}),
    )
    assert limit_of(quotas, ANN, KEY) is None
    assert limit_of(quotas, QuotaClient("", ""), KEY) is None


def test_a_key_that_the_closest_entity_lacks_is_looked_for_further_away() -> None:
    quotas = quotas_of((((USER, "ann"),), {"request_percentage": 1}), (((CLIENT_ID, None),), {KEY: 7}))
    limit = limit_of(quotas, ANN, KEY)
    assert limit is not None
    assert (limit.bound, limit.shared_by) == (7, QuotaClient("", "app"))


# --- what it allows -----------------------------------------------------------------------------------------


def test_nobody_is_limited_while_there_are_no_quotas(quotas: ClientQuotas) -> None:
    assert not quotas.limited
    assert not quotas.connections_limited
    quotas.apply(quotas_of((((IP, None),), {"connection_creation_rate": 1})))
    assert not quotas.limited, "an address's quota costs requests nothing"
    assert quotas.connections_limited
    quotas.apply(quotas_of((((CLIENT_ID, None),), {KEY: 1})))
    assert quotas.limited
    quotas.apply(Map())
    assert not quotas.limited


def test_a_producer_is_held_until_its_rate_is_the_quota(quotas: ClientQuotas, clock: ManualClock) -> None:
    quotas.apply(quotas_of((((CLIENT_ID, None),), {KEY: 1000})))
    assert quotas.produced(ANN, 10_000) == 0, "ten full samples may go at once"
    assert quotas.produced(QuotaClient("bob", "app"), 500) == 500, "the client id is shared"
    assert quotas.produced(QuotaClient("ann", "other"), 500) == 0, "each client id has its own"
    clock.advance(11)
    assert quotas.produced(ANN, 10_000) == 0, "what is long ago does not count"


def test_a_users_quota_is_shared_by_its_client_ids(quotas: ClientQuotas) -> None:
    quotas.apply(quotas_of((((USER, None),), {KEY: 1000})))
    assert quotas.produced(QuotaClient("ann", "one"), 10_000) == 0
    assert quotas.produced(QuotaClient("ann", "two"), 1000) == 1000
    assert quotas.produced(QuotaClient("bob", "one"), 10_000) == 0


def test_a_new_quota_holds_for_what_was_used_before(quotas: ClientQuotas) -> None:
    quotas.apply(quotas_of((((CLIENT_ID, "app"),), {KEY: 1000})))
    assert quotas.produced(ANN, 10_000) == 0
    quotas.apply(quotas_of((((CLIENT_ID, "app"),), {KEY: 500})))
    assert quotas.produced(ANN, 0) == 10_000
    quotas.apply(quotas_of((((CLIENT_ID, "app"),), {KEY: 5000})))
    assert quotas.produced(ANN, 0) == 0


def test_time_of_the_loop_is_limited_and_no_hold_is_longer_than_a_sample(
    quotas: ClientQuotas, clock: ManualClock
) -> None:
    quotas.apply(quotas_of((((CLIENT_ID, "app"),), {"request_percentage": 10})))
    assert quotas.worked(ANN, 1.0) == 0, "ten percent of ten seconds"
    assert quotas.worked(ANN, 0.05) == 500
    assert quotas.worked(ANN, 5.0) == 1000
    clock.advance(11)
    assert quotas.worked(ANN, 1.0) == 0


def test_a_fetch_that_is_held_gets_nothing_and_pays_nothing(quotas: ClientQuotas, clock: ManualClock) -> None:
    quotas.apply(quotas_of((((CLIENT_ID, "app"),), {"consumer_byte_rate": 1000})))
    assert quotas.fetch_bytes_max(ANN) == 10_000
    assert quotas.fetch_bytes_max(QuotaClient("ann", "other")) is None
    assert quotas.fetched(ANN, 9000, 0.0) == 0
    assert quotas.fetched(ANN, 2000, 0.0) == 1000
    assert quotas.fetched(ANN, 1000, 0.0) == 0, "what was held back does not count"
    clock.advance(11)
    assert quotas.fetched(ANN, 2000, 0.0) == 0


def test_a_batch_larger_than_the_quota_gets_through_when_nothing_else_did(
    quotas: ClientQuotas, clock: ManualClock
) -> None:
    quotas.apply(quotas_of((((CLIENT_ID, "app"),), {"consumer_byte_rate": 1000})))
    assert quotas.fetched(ANN, 1, 0.0) == 0
    assert quotas.fetched(ANN, 30_000, 0.0) > 0
    clock.advance(11)
    assert quotas.fetched(ANN, 30_000, 0.0) == 0
    assert quotas.fetched(ANN, 1, 0.0) > 20_000


def test_a_fetch_pays_with_the_loops_time_too(quotas: ClientQuotas) -> None:
    values = {"request_percentage": 10.0, "consumer_byte_rate": 1000.0}
    quotas.apply(quotas_of((((CLIENT_ID, "app"),), values)))
    assert quotas.fetched(ANN, 500, 1.01) == 100
    assert quotas.fetched(ANN, 10_000, 0.0) == 100, "the time still counts, the bytes that were held back do not"


@pytest.mark.attack(63)
def test_new_connections_are_limited_by_address(quotas: ClientQuotas, clock: ManualClock) -> None:
    named = ((IP, "0:0::1"),), {"connection_creation_rate": 1.0}
    default = ((IP, None),), {"connection_creation_rate": 2.0}
    quotas.apply(quotas_of(named, default))
    assert [quotas.connected("::1") for _ in range(12)] == [0] * 10 + [1000] * 2
    assert [quotas.connected("10.0.0.1") for _ in range(21)] == [0] * 20 + [500]
    clock.advance(11)
    assert quotas.connected("::1") == 0
    quotas.apply(quotas_of(named))
    assert all(quotas.connected("10.0.0.2") == 0 for _ in range(100))


def test_changes_of_partitions_are_taken_from_what_is_left(quotas: ClientQuotas, clock: ManualClock) -> None:
    quotas.apply(quotas_of((((USER, None),), {"controller_mutation_rate": 2.0})))
    assert quotas.mutates(ANN, 21, strict=True) == 0
    assert quotas.mutates(QuotaClient("ann", "other"), 4, strict=True) == 0, "who has something left may take more"
    assert quotas.mutates(ANN, 1, strict=True) == 1500, "and waits then, without paying"
    assert quotas.mutates(ANN, 1, strict=False) == 2000
    quotas.mutated_less(ANN, 2)
    assert quotas.mutates(ANN, 1, strict=True) == 1000
    clock.advance(1)
    assert quotas.mutates(ANN, 1, strict=True) == 0
    quotas.mutated_less(ANN, 1000)
    assert dict(quotas.tokens()) == {QuotaClient("ann", ""): 22}, "no more than fits is given back"
    assert quotas.mutates(QuotaClient("bob", "app"), 22, strict=True) == 0


def test_a_hold_has_an_end_that_fits_the_answer(clock: ManualClock) -> None:
    quotas = ClientQuotas(clock.monotonic, Window(1, 1))
    values = {KEY: 1.0, "request_percentage": 5e-324, "controller_mutation_rate": 5e-324}
    quotas.apply(quotas_of((((CLIENT_ID, None),), values)))
    assert quotas.produced(ANN, 1 << 40) == 2**31 - 1
    assert quotas.worked(ANN, 1.0) == 1000
    assert quotas.mutates(ANN, 1, strict=False) == 2**31 - 1


# --- bounds, and what is seen -------------------------------------------------------------------------------


def test_so_many_clients_are_remembered_and_the_silent_ones_go_first(
    quotas: ClientQuotas, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    monkeypatch.setattr(usage, "CLIENTS_MAX", 5)
    quotas.apply(quotas_of((((CLIENT_ID, None),), {KEY: 1000})))
    quotas.produced(ANN, 10_000)
    for number in range(20):
        quotas.produced(QuotaClient("ann", str(number)), 10)
        assert quotas.produced(ANN, 0) == 0
    seen = [who.client_id for who, _ in quotas.rates(KEY)]
    assert seen == ["16", "17", "18", "19", "app"]
    assert quotas.produced(ANN, 1000) == 1000, "who keeps talking is not forgotten"
    clock.advance(3600)
    quotas.produced(QuotaClient("ann", "new"), 1)
    assert [who.client_id for who, _ in quotas.rates(KEY)] == ["new"]


def test_metrics_report_rates_and_holds(quotas: ClientQuotas) -> None:
    metrics = Metrics()
    publish_quotas(metrics, quotas)
    values = {
        KEY: 1000.0,
        "consumer_byte_rate": 1000.0,
        "request_percentage": 10.0,
        "controller_mutation_rate": 2.0,
    }
    quotas.apply(quotas_of((((USER, None), (CLIENT_ID, None)), values)))
    quotas.produced(ANN, 20_000)
    quotas.fetched(ANN, 5000, 0.5)
    quotas.mutates(ANN, 5, strict=True)

    def value(name: str, resource: str) -> float | None:
        labels = {"resource": resource, "user": "ann", "clientId": "app"}
        return metrics.value(f"kafka_server_quota_{name}", labels)

    assert value("byte_rate", "Produce") == 2000
    assert value("byte_rate", "Fetch") == 500
    assert value("request_time", "Request") == 5
    assert value("tokens", "ControllerMutation") == 17
    assert [value("throttle_time", each) for each in ("Produce", "Fetch", "Request")] == [10_000, 0, 0]
    hidden = Metrics()
    publish_quotas(hidden, quotas, digest)
    labels = {"resource": "Produce", "user": digest("ann"), "clientId": digest("app")}
    assert hidden.value("kafka_server_quota_byte_rate", labels) == 2000
