"""Orders and shipments for pipelines, in two parts, with late, duplicate and malformed rows; and what a plain Python
program makes of them."""

import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.spark.topics import Outgoing

PARTITIONS = 2
BEGIN = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)
PART = timedelta(hours=3)
DELAY = timedelta(minutes=5)
BAD = (b"", b"no json", b'{"id": 1, "amount"', b'{"id": "x", "at": "2026-03-01T22:00:00Z"}', b"[1]", b"3", b"\xff\xfe",
       b'{"amount": 3.5}', b'{"id": 5, "at": null}')  # fmt: skip
"""Values that are no orders; the last two have no id or no time."""


@dataclass(frozen=True)
class Order:
    id: int
    customer: str
    amount: float
    at: datetime

    def value(self) -> bytes:
        fields = {"id": self.id, "customer": self.customer, "amount": self.amount, "at": self.at.isoformat()}
        return json.dumps(fields).encode()


@dataclass
class Part:
    """What is written before one run of the pipelines."""

    orders: list[Order] = field(default_factory=list)
    """As they are sent: some twice, in the second part some too late."""
    bad: list[bytes] = field(default_factory=list)
    shipments: list[tuple[int, str, datetime]] = field(default_factory=list)

    def records(self) -> list[Outgoing]:
        good = [Outgoing(order.value(), b"k%d" % order.id, partition=order.id % PARTITIONS) for order in self.orders]
        return [*good, *(Outgoing(value, b"bad", partition=n % PARTITIONS) for n, value in enumerate(self.bad))]

    def shipped(self) -> list[Outgoing]:
        return [
            Outgoing(json.dumps({"order_id": id, "carrier": carrier, "sent": sent.isoformat()}).encode())
            for id, carrier, sent in self.shipments
        ]


def two_parts(seed: int = 7) -> tuple[Part, Part]:
    chance = random.Random(seed)
    parts = []
    for number in range(2):
        begin = BEGIN + number * PART
        fresh = [
            Order(number * 1000 + n, f"c{n % 7}", round(chance.uniform(1, 2000), 2), begin + PART * chance.random())
            for n in range(120)
        ]
        sent = fresh + chance.sample(fresh, 15)
        chance.shuffle(sent)
        shipments = [
            (order.id, chance.choice(("dhl", "ups")), order.at + timedelta(minutes=chance.randrange(1, 60)))
            for order in chance.sample(fresh, 60)
        ]
        parts.append(Part(sent, list(BAD), shipments))
    first, second = parts
    second.orders += chance.sample(first.orders, 10)  # sent again: long known, and late
    second.orders += [Order(5000 + n, "late", 10.0, BEGIN + timedelta(minutes=n)) for n in range(5)]
    second.shipments += [(5000, "dhl", BEGIN + timedelta(minutes=1))]
    return first, second


def in_time(parts: tuple[Part, Part], delay: timedelta = DELAY) -> list[Order]:
    """The orders that a query with a watermark counts: each once, none behind the watermark of the part before."""
    seen: dict[int, Order] = {}
    watermark: datetime | None = None
    for part in parts:
        for order in part.orders:
            if order.id not in seen and (watermark is None or order.at > watermark):
                seen[order.id] = order
        newest = max(order.at for order in part.orders) - delay
        watermark = newest if watermark is None else max(watermark, newest)
    return list(seen.values())


def revenue(parts: tuple[Part, Part]) -> dict[datetime, tuple[int, float]]:
    """Orders and revenue of the windows that are closed at the end."""
    width = timedelta(minutes=10)
    found: dict[datetime, list[float]] = defaultdict(list)
    for order in in_time(parts):
        found[order.at - (order.at - datetime.min.replace(tzinfo=UTC)) % width].append(order.amount)
    watermark = max(order.at for part in parts for order in part.orders) - DELAY
    return {
        start: (len(amounts), round(sum(amounts), 2))
        for start, amounts in found.items()
        if start + width <= watermark
    }
