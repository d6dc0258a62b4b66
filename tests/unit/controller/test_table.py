"""The table of requests, the messages between nodes and the types of replies belong together."""

from typing import Any, ForwardRef, get_args

import pytest

from rookery.controller.table import HANDLERS
from rookery.core.metadata import requests as q
from rookery.core.metadata.rpc import BY_REQUEST


def test_every_request_that_can_be_sent_has_a_handler() -> None:
    """HoldSession is not decided: it stays open in rpc.py."""
    assert set(HANDLERS) == set(BY_REQUEST) - {q.HoldSessionRequest}


@pytest.mark.parametrize("kind", BY_REQUEST, ids=lambda kind: kind.__name__)
def test_a_request_names_the_reply_of_its_method(kind: Any) -> None:
    (reply,) = get_args(kind.__orig_bases__[0])
    assert isinstance(reply, ForwardRef)
    assert getattr(q, reply.__forward_arg__) is BY_REQUEST[kind].reply.values
