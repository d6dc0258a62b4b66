"""What a handler returns: records to write, and the reply to give once they are committed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rookery.core.metadata.delta import Delta
from rookery.core.metadata.image import Image
from rookery.core.metadata.records import Record

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """`reply` is called with the image that has the records in it: only there is a broker's epoch known."""

    records: tuple[Record, ...]
    reply: Callable[[Image], R]


def decided(records: Iterable[Record], reply: R) -> Decision[R]:
    """A decision whose reply is known already."""
    return Decision(tuple(records), lambda image: reply)


def replayed(image: Image, records: Iterable[Record]) -> Image:
    """The image as it will be: for handlers whose later records depend on their earlier ones."""
    delta = Delta(image)
    for record in records:
        delta.replay(record, image.offset)
    return delta.apply().after
