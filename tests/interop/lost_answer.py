"""Stands between clients and a broker and can lose one answer, connection and all."""

import asyncio
from contextlib import suppress
from types import TracebackType

PRODUCE = 0


class LosesOneAnswer:
    """Passes bytes on in both directions. After `lose_next_produce_answer`, the connection whose next
    answer is to a produce request is cut instead of passing the answer on."""

    def __init__(self, broker_port: int) -> None:
        self.broker_port = broker_port
        self._armed = False
        self.lost = 0

    async def __aenter__(self) -> "LosesOneAnswer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._tasks: dict[asyncio.Task[None], None] = {}
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        await asyncio.sleep(0)  # a connection that was just taken has its task from now on
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def lose_next_produce_answer(self) -> None:
        self._armed = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)
        keys: list[int] = []
        ends = [writer]
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self.broker_port)
            ends.append(to_broker)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, to_broker, keys))
                group.create_task(self._answers(from_broker, writer, keys))
        except* (OSError, asyncio.IncompleteReadError, ConnectionAbortedError):
            pass
        finally:
            for end in ends:
                end.close()  # both before any wait, which may be cancelled
            for end in ends:
                with suppress(OSError):
                    await end.wait_closed()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: list[int]
    ) -> None:
        while True:
            frame = await _read_frame(reader)
            keys.append(int.from_bytes(frame[4:6], "big"))
            writer.write(frame)
            await writer.drain()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: list[int]
    ) -> None:
        while True:
            frame = await _read_frame(reader)
            if keys.pop(0) == PRODUCE and self._armed:
                self._armed = False
                self.lost += 1
                raise ConnectionAbortedError("lost, as ordered")
            writer.write(frame)
            await writer.drain()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))
