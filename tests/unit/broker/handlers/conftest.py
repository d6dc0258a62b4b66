from collections.abc import AsyncIterator

import pytest

from tests.unit.broker.talk import QuietBroker


@pytest.fixture
async def broker() -> AsyncIterator[QuietBroker]:
    quiet = QuietBroker()
    yield quiet
    await quiet.stop()
