"""What a struct class is to those who build and read messages."""

import inspect
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from rookery.core.wire.api import Api
from rookery.core.wire.api_table import ALL, by_key
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.primitives import NO_UUID, WireError
from rookery.core.wire.schema import Array, Field, Int32, String, Struct, Versions, field
from tests.golden.wire.messages import EVERY_VERSION, case_id, random_message


class Inner(Struct):
    number: int = field(Int32)
    extra: int = field(Int32, "2+", tag=0, default=-1)


class Outer(Struct):
    name: str = field(String, nullable="1+")
    since_one: int = field(Int32, "1+", default=7)
    inner: Inner | None = field(Inner, "2+", nullable="2+", default=None)
    numbers: Sequence[int] = field(Array(Int32), "0-1", default=())
    old: Sequence[Inner] = field(Array(Inner), "0-1", default=())


OUTER: Api[Outer, Outer] = Api(999, "Outer", Outer, Outer, versions="0-3", flexible="2+")


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3+", [3, 4, 32767], [2]), ("0-12", [0, 12], [13]), ("7", [7], [6, 8]), ("", [], [0, 1])],
)
def test_versions(text: str, inside: list[int], outside: list[int]) -> None:
    versions = Versions.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_a_struct_is_built_by_names_and_fills_in_defaults() -> None:
    partition = FetchPartition(partition=3, fetch_offset=9, partition_max_bytes=100)
    assert (partition.partition, partition.fetch_offset, partition.current_leader_epoch) == (3, 9, -1)
    assert partition.replica_directory_id == NO_UUID
    assert repr(partition).startswith("FetchPartition(partition=3, current_leader_epoch=-1, fetch_offset=9")


def test_a_struct_refuses_missing_and_unknown_names() -> None:
    make: Any = FetchPartition
    with pytest.raises(TypeError, match="fetch_offset"):
        make(partition=3)
    with pytest.raises(TypeError, match="colour"):
        make(partition=3, fetch_offset=9, partition_max_bytes=1, colour="red")
    with pytest.raises(AttributeError):
        make(partition=3, fetch_offset=9, partition_max_bytes=1).colour = "red"


def test_structs_are_equal_by_value_and_lists_equal_tuples() -> None:
    one = Outer(name="a", numbers=[1, 2])
    assert one == Outer(name="a", numbers=(1, 2))
    assert one != Outer(name="b", numbers=(1, 2))
    assert one != Inner(number=1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_fields_a_version_lacks_are_left_out_and_come_back_as_defaults() -> None:
    message = Outer(name="a", since_one=5, inner=Inner(number=1, extra=2), numbers=[1])
    assert OUTER.encode_request(0, message) == [b"\0\1a" b"\0\0\0\1\0\0\0\1" b"\0\0\0\0"]
    assert OUTER.decode_request(0, b"\0\1a\0\0\0\0\0\0\0\0") == Outer(name="a")
    assert OUTER.decode_request(3, b"".join(OUTER.encode_request(3, message))) == Outer(
        name="a", since_one=5, inner=Inner(number=1, extra=2)
    )


def test_nulls_only_where_a_version_has_them() -> None:
    nothing: Any = Outer(name=None)  # type: ignore[arg-type]
    assert OUTER.decode_request(1, b"".join(OUTER.encode_request(1, nothing))) == nothing
    with pytest.raises(WireError, match="cannot encode Outer request v0"):
        OUTER.encode_request(0, nothing)
    with pytest.raises(WireError, match=r"Outer\.name must not be null"):
        OUTER.decode_request(0, b"\xff\xff" + bytes(8))


@pytest.mark.parametrize(
    "bad", [{"name": 5}, {"since_one": 2**31}, {"since_one": "x"}, {"numbers": [None]}, {"name": "x" * 40000}]
)
def test_values_that_cannot_travel_are_refused(bad: dict[str, Any]) -> None:
    values: dict[str, Any] = {"name": "a", **bad}
    with pytest.raises(WireError, match="cannot encode Outer request v1"):
        OUTER.encode_request(1, Outer(**values))


def test_versions_nobody_declared_are_refused() -> None:
    for version in (-1, 2, 14):
        with pytest.raises(WireError, match=f"Produce request has versions 3 to 13, not {version}"):
            PRODUCE.decode_request(version, b"")
    assert not PRODUCE.supports(2)


def test_elements_without_bytes_cannot_be_declared() -> None:
    class Empty(Struct):
        pass

    class Many(Struct):
        empties: Sequence[Empty] = field(Array(Empty))

    api: Api[Many, Many] = Api(998, "Many", Many, Many, versions="0")
    with pytest.raises(TypeError, match="take no bytes"):
        api.decode_request(0, b"\x7f\xff\xff\xff")


def test_every_api_has_one_key_and_one_name() -> None:
    assert len(by_key) == len(ALL) == len({api.name for api in ALL})
    assert by_key[1] is FETCH
    assert FETCH.request is FetchRequest
    assert (FETCH.min_version, FETCH.max_version, FETCH.flexible_from) == (4, 18, 12)


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=case_id)
def test_every_message_can_be_built_by_names(api: Api[Any, Any], version: int) -> None:
    """The constructor and the decoder agree on every attribute."""
    rng = Random(f"{api.name} {version}")
    for cls in (api.request, api.response):
        message = random_message(cls, version, rng)
        assert cls(**{name: getattr(message, name) for name in cls.fields}) == message


def test_tags_are_only_declared_for_flexible_versions() -> None:
    def walk(api: Api[Any, Any], cls: type[Struct]) -> None:
        tags = [declared.tag for declared in cls.fields.values() if declared.tag is not None]
        assert len(set(tags)) == len(tags), cls
        for declared in cls.fields.values():
            _check(api, declared)
            inner = declared.type.of if isinstance(declared.type, Array) else declared.type
            if isinstance(inner, type):
                walk(api, inner)

    def _check(api: Api[Any, Any], declared: Field) -> None:
        first = max(declared.versions.first, api.min_version)
        assert declared.tag is None or api.flexible(first) or api.flexible_from is not None

    for api in ALL:
        walk(api, api.request)
        walk(api, api.response)


def test_the_compiled_source_can_be_read() -> None:
    """Tracebacks and debuggers find the lines of generated functions."""
    FETCH.encode_response(12, FetchResponse(responses=[]))
    assert inspect.getsource(FETCH.request_readers[12]).startswith("def decode(buf, p=0):")
    assert inspect.getsource(FETCH.response_writers[12]).startswith("def encode(message):")


def test_topics_by_name_and_by_id_are_the_same_class() -> None:
    request = FetchRequest(
        max_wait_ms=1, min_bytes=1, topics=[FetchTopic(topic="a", topic_id=NO_UUID, partitions=[])]
    )
    assert FETCH.decode_request(12, b"".join(FETCH.encode_request(12, request))).topics[0].topic == "a"
    assert FETCH.decode_request(13, b"".join(FETCH.encode_request(13, request))).topics[0].topic == ""
