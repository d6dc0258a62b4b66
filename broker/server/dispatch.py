"""The table of what a broker serves, and the path of a request through it.

Each handler declares the API it serves, the versions it serves it in, and the lowest one to advertise; the
answer to ApiVersions is derived from that, so nothing is offered that is not there. A handler is a plain
function of (request, call): it returns the response, or a `Pending` when it has to wait, or None when there
is nothing to answer. A handler written as a coroutine runs as a task of the server; the connection waits
for it like for any other `Pending`. A handler whose answers are the same for all clients may encode them itself,
with a method `writer(version)`.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterable
from struct import Struct as Layout
from typing import Any, Protocol

from rookery.broker.server.client import Call, Client
from rookery.broker.server.pending import Pending
from rookery.broker.server.request_metrics import RequestMetrics, RouteMetrics
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.request_header import read_request_fields
from rookery.core.wire.served import Served

PRODUCE_KEY = 0
API_VERSIONS_KEY = 18
BYTES_MAX = 8 * 1024 * 1024
"""Of a request without records. Every element of its lists becomes an object many times as large."""
_PLAIN = Layout(">ii")  # a response's size and correlation id
_TAGGED = Layout(">iix")  # and no tagged fields

StartTask = Callable[[Coroutine[Any, Any, Any], str], "Pending[Any]"]


class Handler(Protocol):
    @property
    def served(self) -> Served: ...

    def handle(self, request: Any, call: Call) -> Any: ...


class Refused(Exception):
    """A request that has no decodable answer: the connection is closed, with this as the reason."""


class Broken(Exception):
    """A handler failed for no fault of the client's; the cause says how."""

    def __init__(self, call: Call) -> None:
        super().__init__(f"{call.route.name} version {call.version}")
        self.call = call


class Route:
    """One row of the table."""

    __slots__ = (
        "_forms", "_writer", "api", "first", "handle", "is_async", "last", "metrics", "name", "readers", "served",
        "writes",
    )  # fmt: skip

    def __init__(self, handler: Handler, metrics: RouteMetrics) -> None:
        self.served = handler.served
        self.api = self.served.api
        self.name = self.api.name
        self.first, self.last = self.served.min, self.served.max
        self.handle = handler.handle
        self.is_async = inspect.iscoroutinefunction(handler.handle)
        self.metrics = metrics
        self.writes = self.api.key == PRODUCE_KEY
        self.readers = self.api.request_readers
        self._writer = getattr(handler, "writer", self.api.response_writers.__getitem__)
        self._forms: dict[int, tuple[Layout, Callable[[Any], list[Buffer]]]] = {}  # by version

    def answer(self, version: int, correlation_id: int, response: Any) -> tuple[list[Buffer], int]:
        """A response as segments to be written, size and header first, and how many bytes they are."""
        form = self._forms.get(version)
        header, encode = self._form(version) if form is None else form
        segments = encode(response)
        if len(segments) == 1:  # no records: one piece is cheaper to write than two
            size = header.size + len(segments[0])
            segments[0] = header.pack(size - 4, correlation_id) + segments[0]
        else:
            size = header.size + sum(map(len, segments))
            segments.insert(0, header.pack(size - 4, correlation_id))
            while not segments[-1]:  # asyncio's transport would stay busy with it, since Python 3.12
                segments.pop()
        return segments, size

    def _form(self, version: int) -> tuple[Layout, Callable[[Any], list[Buffer]]]:
        """How an answer of this version is written."""
        header = _TAGGED if self.api.header_flexible(version) else _PLAIN
        form = self._forms[version] = header, self._writer(version)
        return form


class Dispatch:
    """Finds the route of a frame and runs it."""

    def __init__(self, handlers: Iterable[Handler], metrics: RequestMetrics, start_task: StartTask) -> None:
        self._start_task = start_task
        self._routes: dict[int, Route] = {}
        for handler in handlers:
            route = Route(handler, metrics.route(handler.served.api.name))
            if route.api.key in self._routes:
                raise ValueError(f"two handlers serve {route.name}")
            self._routes[route.api.key] = route

    @property
    def served(self) -> tuple[Served, ...]:
        return tuple(route.served for route in self._routes.values())

    def route(self, key: int) -> Route:
        """The row of one API; KeyError if it is not served."""
        return self._routes[key]

    def call(self, frame: Buffer, client: Client) -> tuple[Call, Any]:
        """Serve one request: what it is, and what its handler returned. What the frame holds is valid only
        until this returns. Raises Refused or WireError where there is no decodable answer."""
        key, version, correlation_id, client_id, position = read_request_fields(frame)
        route = self._routes.get(key)
        if route is None:
            raise Refused(f"api key {key} is not served")
        if len(frame) > BYTES_MAX and key != PRODUCE_KEY:
            raise Refused(f"{route.name} of {len(frame)} bytes: {BYTES_MAX} may be")
        request = None  # ApiVersions in a version from the future: its answer says so
        if route.first <= version <= route.last:
            request = route.readers[version](frame, position)
        elif key != API_VERSIONS_KEY:
            raise Refused(f"{route.name} version {version} is not served, only {route.first} to {route.last}")
        versions = route.metrics.versions
        versions[version] = versions.get(version, 0) + 1
        call = Call(route, version, correlation_id, client_id, client)
        if route.is_async:
            return call, self._start_task(route.handle(request, call), route.name)
        try:
            return call, route.handle(request, call)
        except (Refused, WireError):
            raise
        except Exception as error:
            raise Broken(call) from error
