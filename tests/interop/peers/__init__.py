"""Clients of other projects and our own, asked to do the same things each in its own way."""

from tests.interop.peers.aio import AioKafka
from tests.interop.peers.go import KafkaGo
from tests.interop.peers.kcat import Kcat
from tests.interop.peers.ours import Rookery
from tests.interop.peers.peer import Peer
from tests.interop.peers.python import KafkaPython
from tests.interop.peers.rdkafka import LibRdKafka

ALL: tuple[Peer, ...] = (LibRdKafka(), AioKafka(), KafkaPython(), Kcat(), KafkaGo(), Rookery())
