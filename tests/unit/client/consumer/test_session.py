"""Fetch sessions: whatever is wanted next, the node's view becomes exactly that."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from rookery.client.consumer.session import FetchSession, Wanted
from rookery.client.types import TopicPartition
from rookery.core.errors import ErrorCode
from rookery.core.net.fetch_session import SessionRequest
from rookery.core.wire.apis.fetch import FetchPartition

PLACES = [TopicPartition(topic, index) for topic in ("a", "b") for index in range(3)]
wanteds = st.dictionaries(
    st.sampled_from(PLACES),
    st.builds(
        Wanted,
        st.integers(1, 2).map(lambda n: UUID(int=n)),
        st.integers(0, 5),
        st.integers(0, 2),
        st.just(100),
    ),
)


class Node:
    """The node's side as KIP-227 has it."""

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0
        self.view: dict[tuple[str, UUID, int], FetchPartition] = {}

    def answer(self, request: SessionRequest) -> tuple[int, int]:
        if request.session_epoch == 0:
            self.id, self.epoch, self.view = self.id + 1, 0, {}
        elif request.session_id != self.id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0
        elif request.session_epoch != self.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0
        for gone in request.forgotten:
            for index in gone.partitions:
                del self.view[gone.topic, gone.topic_id, index]
        for topic in request.topics:
            for partition in topic.partitions:
                self.view[topic.topic, topic.topic_id, partition.partition] = partition
        self.epoch += 1
        return 0, self.id


def seen(node: Node) -> dict[TopicPartition, Wanted]:
    return {
        TopicPartition(topic, index): Wanted(
            id, each.fetch_offset, each.current_leader_epoch, each.partition_max_bytes
        )
        for (topic, id, index), each in node.view.items()
    }


@given(st.lists(st.tuples(wanteds, st.sampled_from(["fine", "request lost", "answer lost", "node forgot"]))))
def test_the_node_sees_exactly_what_is_wanted(steps: list[tuple[dict[TopicPartition, Wanted], str]]) -> None:
    session, node = FetchSession(), Node()
    for wanted, fate in steps:
        if fate == "node forgot":
            node.id += 1
        request = session.next_request(wanted)
        if fate == "request lost":
            session.reset()
            continue
        code, session_id = node.answer(request)
        if fate == "answer lost":
            session.reset()
        elif session.answered(code, session_id):
            assert seen(node) == wanted == dict(session.sent)
        else:
            assert fate == "node forgot"


def test_a_quiet_session_sends_nothing() -> None:
    session, node = FetchSession(), Node()
    wanted = {PLACES[0]: Wanted(UUID(int=1), 5, 1, 100)}
    assert session.answered(*node.answer(session.next_request(wanted)))
    again = session.next_request(wanted)
    assert again.topics == again.forgotten == []
    assert session.last_request() == SessionRequest(1, -1, [], [])


def test_a_node_that_keeps_no_session_gets_full_requests() -> None:
    session = FetchSession()
    wanted = {PLACES[0]: Wanted(UUID(int=1), 5, 1, 100)}
    for _ in range(2):
        assert len(session.next_request(wanted).topics) == 1
        assert session.answered(0, 0)
    assert session.last_request() is None
