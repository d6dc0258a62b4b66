"""Send without waiting, and get a report of each record: where it is stored, or why it is not."""

from rookery import Producer, RecordMetadata


async def main(bootstrap: str, topic: str) -> list[str]:
    reports: list[str] = []

    def delivered(metadata: RecordMetadata | None, error: Exception | None) -> None:
        if metadata is not None:
            reports.append(f"stored at {metadata.partition}@{metadata.offset}")
        else:
            reports.append(f"not stored: {error}")

    async with Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        for number in range(3):
            await producer.send(topic, b"%d" % number, on_delivery=delivered)
    return reports  # closing delivered what was waiting
