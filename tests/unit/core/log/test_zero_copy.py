"""A read says where its bytes lie, so that the kernel can send them from the page cache."""

import os
import socket
from pathlib import Path

import pytest

from rookery.core.disk import FileDisk
from rookery.core.log import Log, LogConfig
from tests.unit.core.log.sample import batch


@pytest.mark.row(50)
def test_sendfile_from_where_a_read_lies_gives_the_same_bytes(tmp_path: Path) -> None:
    log = Log.open(FileDisk(), str(tmp_path / "orders-0"), LogConfig(segment_bytes=3000), recovery_point=0)
    for number in range(100):
        log.append_as_leader(batch([b"value-%d" % number]), 1, 0)
    sender, receiver = socket.socketpair()
    with sender, receiver:
        for offset in range(0, 100, 7):
            got = log.read(offset, 500)
            file = log.segment_of(got.segment_base).file
            assert os.sendfile(sender.fileno(), file.fileno(), got.position, len(got.data)) == len(got.data)
            assert receiver.recv(len(got.data), socket.MSG_WAITALL) == bytes(got.data)
    log.close()
