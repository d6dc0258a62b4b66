"""Send without waiting, and be told of each record: where it is stored, or why it is not."""

from rookery import Producer, RecordMetadata


async def main(bootstrap: str, topic: str) -> list[str]:
    told: list[str] = []

    def delivered(metadata: RecordMetadata | None, error: Exception | None) -> None:
        if metadata is not None:
            told.append(f"stored at {metadata.partition}@{metadata.offset}")
        else:
            told.append(f"not stored: {error}")

    async with Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        for number in range(3):
            await producer.send(topic, b"%d" % number, on_delivery=delivered)
    return told  # closing delivered what was waiting
