"""The methods of rookery.controller.Controller, as both sides of the connection see them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from rookery.core.metadata import requests
from rookery.core.metadata.protobuf import Mapping
from rookery.proto import controller_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["Controller"].full_name


@dataclass(frozen=True, slots=True)
class Method:
    """One call: its place on the wire, and how its messages become values."""

    name: str
    request_message: Any
    reply_message: Any
    request: Mapping[Any]
    reply: Mapping[Any]

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.name}"


def _method(name: str, request: Any, reply: Any) -> Method:
    return Method(
        name,
        request,
        reply,
        Mapping(_values(request), request, apart=frozenset({"caller"})),
        Mapping(_values(reply), reply, apart=frozenset({"failure"})),
    )


def _values(message: Callable[..., Any]) -> type[Any]:
    values: type[Any] = getattr(requests, message.__name__)
    return values


METHODS = {
    method.name: _method(
        method.name, GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    )
    for method in pb.DESCRIPTOR.services_by_name["Controller"].methods
}
BY_REQUEST = {method.request.values: method for method in METHODS.values()}
