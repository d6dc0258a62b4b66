"""What is encoded decodes to the same, whatever the buffer, wherever it starts, whatever follows."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden.wire.messages import EVERY_VERSION, SIDES
from tests.unit.core.wire.strategies import messages


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_round_trip(data: Any) -> None:
    api, version = data.draw(st.sampled_from(EVERY_VERSION))
    side = data.draw(st.sampled_from(SIDES))
    message = data.draw(messages(api.request if side == "request" else api.response, version))
    encode = api.encode_request if side == "request" else api.encode_response
    decode = api.decode_request if side == "request" else api.decode_response
    raw = b"".join(encode(version, message))
    before, after = data.draw(st.binary(max_size=9)), data.draw(st.binary(max_size=9))
    buffer = data.draw(st.sampled_from([bytes, bytearray, memoryview]))
    assert decode(version, buffer(before + raw + after), len(before)) == message
