"""Every API against the table of rights: allowed, denied, and what a denial tells."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.broker.authorization.scene import (
    APIS,
    AUTHORIZATION_CODES,
    GROUP,
    ID,
    STREAMING,
    TOPIC,
    Scene,
    build,
    codes,
    full,
)
from tests.unit.broker.authorization.table import FREE, OMITTED, TABLE, Row

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    async with full() as scene:
        yield scene


async def ask(scene: Scene, row: Row) -> Any:
    return await scene.alice.ask(row.api, row.version, **row.request(scene))


def of(rows: tuple[Row, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


HARMLESS = tuple(row for row in TABLE if not row.takes_away)
MISSING = [(row, number) for row in TABLE for number in range(len(row.needs))]
OTHERWISE = [(row, rights) for row in TABLE for rights in row.instead]


async def test_every_api_that_is_served_has_a_row(scene: Scene) -> None:
    """A new API cannot be forgotten."""
    served = {each.api.name for each in scene.broker.server.dispatch.served}
    assert served - {row.api for row in TABLE} - FREE.keys() == set()
    assert {row.api for row in TABLE} - served == set()


@pytest.mark.parametrize(
    ("row", "number"), MISSING, ids=[f"{row.name}-without-{row.needs[number][0]}" for row, number in MISSING]
)
@pytest.mark.attack(46)
async def test_denied(scene: Scene, row: Row, number: int) -> None:
    scene.allow(*(right for place, (right, _) in enumerate(row.needs) if place != number))
    answer = await ask(scene, row)
    code = row.needs[number][1]
    if code == OMITTED:
        assert row.lists is not None
        assert row.lists(answer) == []
        assert codes(answer) & AUTHORIZATION_CODES == set()
    else:
        assert codes(answer) & AUTHORIZATION_CODES == {code}


@of(HARMLESS)
async def test_allowed(scene: Scene, row: Row) -> None:
    scene.allow(*(right for right, _ in row.needs))
    answer = await ask(scene, row)
    assert codes(answer) & AUTHORIZATION_CODES == set(), answer
    if row.lists is not None:
        assert row.lists(answer) != []
    assert scene.denials == []


@pytest.mark.parametrize(
    ("row", "rights"), OTHERWISE, ids=[f"{row.name}-with-{'+'.join(rights)}" for row, rights in OTHERWISE]
)
async def test_allowed_otherwise(scene: Scene, row: Row, rights: tuple[str, ...]) -> None:
    scene.allow(*rights)
    answer = await ask(scene, row)
    assert codes(answer) & AUTHORIZATION_CODES == set(), answer
    if row.lists is not None:
        assert row.lists(answer) != []


@of(TABLE)
@pytest.mark.attack(41)
async def test_a_denial_names_nothing_that_was_not_asked_for(scene: Scene, row: Row) -> None:
    scene.allow()
    api = APIS[row.api]
    asked = b"".join(map(bytes, api.encode_request(row.version, build(api.request, row.request(scene)))))
    answer = await ask(scene, row)
    told = b"".join(map(bytes, api.encode_response(row.version, answer)))
    for secret in (TOPIC.encode(), GROUP.encode(), STREAMING.encode(), ID.encode(), scene.topic_id.bytes):
        assert secret in asked or secret not in told


@of(HARMLESS)
async def test_super_users_may_do_everything(scene: Scene, row: Row) -> None:
    scene.allow()
    answer = await scene.admin.ask(row.api, row.version, **row.request(scene))
    assert codes(answer) & AUTHORIZATION_CODES == set()
