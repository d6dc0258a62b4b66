"""Ids of clusters, topics, folders and incarnations: random, and written as Kafka writes them."""

import base64
from uuid import UUID, uuid4


def id_text(value: UUID) -> str:
    """URL-safe base64 of the 16 bytes, without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def new_id() -> UUID:
    """Never one whose text begins with a dash: on a command line it would be an option."""
    while True:
        made = uuid4()
        if not id_text(made).startswith("-"):
            return made
