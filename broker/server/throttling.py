"""What a request costs its client where there are quotas, and how the answer tells that it has used them up."""

from copy import copy
from typing import Any

from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.server.client import Call
from rookery.core.wire.apis.fetch import FETCH
from rookery.core.wire.apis.produce import PRODUCE


def charge(quotas: ClientQuotas, call: Call, size: int, response: Any, seconds: float) -> tuple[Any, int]:
    """For a request of `size` bytes that kept the loop for `seconds`: what to answer, and for how many
    milliseconds to hold the client then. Fetches are charged by their handler, which alone knows what it read and
    for whom; a request without an answer (acks=0) costs no time, since nobody would hear of it."""
    api, told_ms = call.route.api, getattr(response, "throttle_time_ms", 0)
    if api is FETCH:
        return response, told_ms
    who = call.who
    delay_ms = max(told_ms, quotas.worked(who, seconds)) if response is not None else 0
    if api is PRODUCE:
        delay_ms = max(delay_ms, quotas.produced(who, size))
    if delay_ms > told_ms and hasattr(response, "throttle_time_ms"):
        response = copy(response)  # some answers are made once for all clients
        response.throttle_time_ms = delay_ms
    return response, delay_ms
