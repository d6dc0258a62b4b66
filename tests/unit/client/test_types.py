"""What type checkers know of the public clients. The functions below are checked, not run."""

from collections.abc import Sequence
from typing import assert_type

import rookery
import rookery.sync
from rookery import Delivery, Health, OffsetAndMetadata, RecordMetadata, TopicDescription, TopicPartition
from rookery.client.blocking import BlockingResult
from rookery.client.consumer.deserializing import AnyRecord
from rookery.client.faces import BlockingDelivery


async def asynchronous(producer: rookery.Producer, consumer: rookery.Consumer, admin: rookery.Admin) -> None:
    assert_type(await producer.send("t", b"v"), Delivery)
    assert_type(await (await producer.send("t", b"v")), RecordMetadata)
    assert_type(producer.try_send("t", b"v"), Delivery | None)
    assert_type(await (await producer.send_many("t", [b"v"])), Sequence[RecordMetadata])
    assert_type(await consumer.getmany(), list[AnyRecord])
    assert_type(await admin.describe_topic("t"), TopicDescription)


def blocking(producer: rookery.sync.Producer, consumer: rookery.sync.Consumer, admin: rookery.sync.Admin) -> None:
    assert_type(producer.send("t", b"v"), BlockingDelivery)
    assert_type(producer.send("t", b"v").result(), RecordMetadata)
    assert_type(producer.send_many("t", [b"v"]).result(), Sequence[RecordMetadata])
    assert_type(producer.health(), Health)
    with producer.transaction() as transaction:
        assert_type(transaction.send("t", b"v"), BlockingDelivery)
    with consumer as opened:
        assert_type(opened, rookery.sync.Consumer)
    assert_type(consumer.getmany(timeout_ms=10), list[AnyRecord])
    assert_type(consumer.commit_async(), BlockingResult[None])
    assert_type(consumer.committed(), dict[TopicPartition, OffsetAndMetadata | None])
    assert_type(consumer.assignment, frozenset[TopicPartition])
    for record in consumer:
        assert_type(record, AnyRecord)
    assert_type(admin.describe_topic("t"), TopicDescription)
    assert_type(admin.list_topics(), list[str])
    admin.list_topic()  # type: ignore[attr-defined]


def test_blocking_clients_have_the_calls_that_their_types_promise() -> None:
    for kind in ("Producer", "Consumer", "Admin"):
        face = getattr(rookery.sync, kind)(bootstrap_servers="localhost:1")
        try:
            own = {name for name in dir(getattr(rookery, kind)) if not name.startswith("_")}
            assert own - {"transaction_state"} <= set(dir(face))
        finally:
            face.close()
