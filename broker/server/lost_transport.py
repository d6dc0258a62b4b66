"""What a connection has in place of its transport when that is lost.

With TLS, transport and connection hold each other, with half a megabyte of buffers. Until the garbage collector came,
clients that connect again and again would use more and more memory.
"""

import asyncio
from typing import Any


class _Gone(asyncio.Transport):
    """Takes everything and does nothing."""

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def writelines(self, list_of_data: Any) -> None: ...


GONE: asyncio.Transport = _Gone()
