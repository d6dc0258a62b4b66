"""Client quotas: only what is enforced is accepted, and an entity gets all of its changes or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.controller.state.client_quotas import alter_client_quotas
from rookery.core.errors import ErrorCode
from rookery.core.metadata.client_quotas import CLIENT_ID, IP, NO_QUOTAS, USER, entity_of
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.image import EMPTY, Image, QuotaEntity
from rookery.core.metadata.requests import AlterClientQuotasRequest, QuotaAlteration, QuotaChange
from rookery.core.metadata.snapshot import snapshot
from tests.unit.controller.state.clusters import after

Parts = tuple[tuple[str, str | None], ...]
REPORTS: Parts = ((CLIENT_ID, "reports"),)


def alteration(parts: Parts, *changes: tuple[str, float | None]) -> QuotaAlteration:
    entity = tuple(QuotaEntity(type, name) for type, name in parts)
    return QuotaAlteration(entity, tuple(QuotaChange(key, value) for key, value in changes))


def alter(image: Image, *alterations: QuotaAlteration, validate_only: bool = False) -> tuple[list[str], Image]:
    decision = alter_client_quotas(image, AlterClientQuotasRequest(alterations, validate_only))
    later = after(image, decision.records)
    answers = decision.reply(later).entries
    assert [answer.entity for answer in answers] == [one.entity for one in alterations]
    assert all(bool(answer.message) == bool(answer.error) for answer in answers)
    return [ErrorCode(answer.error).name for answer in answers], later


def quotas(image: Image, *parts: tuple[str, str | None]) -> dict[str, float]:
    return dict(image.quotas.get(entity_of(QuotaEntity(type, name) for type, name in parts), NO_QUOTAS))


def test_quotas_are_set_changed_and_removed() -> None:
    errors, image = alter(EMPTY, alteration(REPORTS, ("producer_byte_rate", 1000), ("request_percentage", 2.5)))
    assert errors == ["NONE"]
    assert quotas(image, *REPORTS) == {"producer_byte_rate": 1000, "request_percentage": 2.5}
    errors, image = alter(image, alteration(REPORTS, ("producer_byte_rate", None), ("request_percentage", 3)))
    assert quotas(image, *REPORTS) == {"request_percentage": 3}
    errors, image = alter(image, alteration(REPORTS, ("request_percentage", None), ("consumer_byte_rate", None)))
    assert (errors, image.quotas) == (["NONE"], EMPTY.quotas), "what has no quotas is not remembered"


def test_the_order_of_an_entitys_parts_does_not_matter() -> None:
    one, other = ((USER, "ann"), (CLIENT_ID, None)), ((CLIENT_ID, None), (USER, "ann"))
    _, image = alter(EMPTY, alteration(one, ("producer_byte_rate", 1000)))
    _, image = alter(image, alteration(other, ("producer_byte_rate", 2000)))
    assert quotas(image, *one) == {"producer_byte_rate": 2000}
    assert len(image.quotas) == 1
    assert alter(image, alteration(one), alteration(other))[0] == ["NONE", "INVALID_REQUEST"]


def test_nothing_is_written_where_nothing_changes_or_only_validation_is_asked_for() -> None:
    wanted = alteration(((IP, None),), ("connection_creation_rate", 5))
    errors, image = alter(EMPTY, wanted, validate_only=True)
    assert (errors, image.quotas) == (["NONE"], EMPTY.quotas)
    _, image = alter(EMPTY, wanted)
    assert alter_client_quotas(image, AlterClientQuotasRequest((wanted,))).records == ()


@pytest.mark.parametrize(
    "parts",
    [
        (),
        ((USER, ""),),
        (("group", "g"),),
        ((IP, "10.0.0.1"), (USER, "ann")),
        ((USER, "ann"), (USER, "bob")),
        ((IP, "db.example"),),
    ],
)
def test_entities_that_cannot_be_are_refused(parts: Parts) -> None:
    assert alter(EMPTY, alteration(parts))[0] == ["INVALID_REQUEST"]


@pytest.mark.parametrize(
    ("parts", "key", "value"),
    [
        (REPORTS, "no_such_key", 1),
        (REPORTS, "", 1),
        (REPORTS, "connection_creation_rate", 1),
        (REPORTS, "controller_mutation_rate", 0),
        (((IP, "::1"),), "producer_byte_rate", 1),
        (REPORTS, "producer_byte_rate", 0),
        (REPORTS, "producer_byte_rate", -1),
        (REPORTS, "producer_byte_rate", 1.5),
        (REPORTS, "producer_byte_rate", 1e-9),
        (REPORTS, "producer_byte_rate", 1e20),
        (REPORTS, "request_percentage", float("nan")),
        (REPORTS, "request_percentage", float("inf")),
        (((IP, "::1"),), "connection_creation_rate", 2**31),
    ],
)
def test_a_wrong_change_refuses_the_whole_entity_and_no_other(parts: Parts, key: str, value: float) -> None:
    good = "connection_creation_rate" if parts[0][0] == IP else "request_percentage"
    other = alteration(((USER, None),), ("consumer_byte_rate", 1))
    errors, image = alter(EMPTY, alteration(parts, (key, value), (f"{good}", 1)), other)
    assert errors == ["INVALID_REQUEST", "NONE"]
    assert list(image.quotas) == [other.entity]


def test_a_key_named_twice_is_refused() -> None:
    assert alter(EMPTY, alteration(REPORTS, ("request_percentage", 1), ("request_percentage", 2)))[0] == [
        "INVALID_REQUEST"
    ]


_names = st.none() | st.sampled_from(("a", "b"))
_entities = st.one_of(
    st.tuples(st.tuples(st.just(USER), _names)),
    st.tuples(st.tuples(st.just(CLIENT_ID), _names)),
    st.tuples(st.tuples(st.just(CLIENT_ID), _names), st.tuples(st.just(USER), _names)),
)
_values = st.none() | st.integers(1, 5).map(float)
_keys = st.sampled_from(
    ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
)


@given(history=st.lists(st.tuples(_entities, _keys, _values), max_size=30))
def test_the_image_is_what_was_set_last_and_survives_a_snapshot(
    history: list[tuple[Parts, str, float | None]],
) -> None:
    image, model = EMPTY, dict[tuple[Parts, str], float]()
    for parts, key, value in history:
        errors, image = alter(image, alteration(parts, (key, value)))
        assert errors == ["NONE"]
        model.pop((parts, key), None)
        if value is not None:
            model[parts, key] = value
    found = {
        (tuple((part.type, part.name) for part in entity), key): value
        for entity, values in image.quotas.items()
        for key, value in values.items()
    }
    assert found == model
    assert all(image.quotas.values()), "no entity without quotas"
    delta = Delta.from_snapshot(EMPTY)
    for record in snapshot(image):
        delta.replay(record, 0)
    assert delta.apply().after.quotas == image.quotas
