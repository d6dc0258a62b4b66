import asyncio

import pytest

from rookery.core.service import Service, ServiceError, ServiceGroup


class Recorded(Service):
    def __init__(self, name: str, events: list[str], *, fail: str = "") -> None:
        self.name = name
        self._events = events
        self._fail = fail

    async def start(self) -> None:
        self._events.append(f"start {self.name}")
        if self._fail == "start":
            raise RuntimeError("cannot start")

    async def serve(self) -> None:
        if self._fail == "serve":
            raise RuntimeError("broke")
        if self._fail != "end":
            await super().serve()

    async def stop(self) -> None:
        self._events.append(f"stop {self.name}")
        if self._fail == "stop":
            raise RuntimeError("cannot stop")
        if self._fail == "hang":
            await asyncio.Event().wait()


async def test_start_in_order_stop_in_reverse() -> None:
    events: list[str] = []
    group = ServiceGroup([Recorded("a", events), Recorded("b", events)])
    await group.run(on_ready=group.request_stop)
    assert events == ["start a", "start b", "stop b", "stop a"]


async def test_a_failed_start_stops_what_had_started() -> None:
    events: list[str] = []
    group = ServiceGroup([Recorded("a", events), Recorded("b", events, fail="start"), Recorded("c", events)])
    with pytest.raises(RuntimeError, match="cannot start"):
        await group.run()
    assert events == ["start a", "start b", "stop a"]


async def test_a_failure_while_serving_stops_all_and_is_raised() -> None:
    events: list[str] = []
    group = ServiceGroup([Recorded("a", events), Recorded("b", events, fail="serve")])
    with pytest.raises(ExceptionGroup) as caught:
        await group.run()
    assert caught.group_contains(RuntimeError, match="broke")
    assert events[-2:] == ["stop b", "stop a"]


async def test_a_service_that_ends_by_itself_is_a_failure() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await ServiceGroup([Recorded("a", [], fail="end")]).run()
    assert caught.group_contains(ServiceError, match="'a' ended by itself")


async def test_one_that_cannot_stop_does_not_keep_the_others() -> None:
    events: list[str] = []
    services = [Recorded("a", events), Recorded("b", events, fail="stop"), Recorded("c", events, fail="hang")]
    group = ServiceGroup(services, stop_timeout_s=0.05)
    with pytest.raises(RuntimeError, match="cannot stop"):
        await group.run(on_ready=group.request_stop)
    assert events[-3:] == ["stop c", "stop b", "stop a"]
