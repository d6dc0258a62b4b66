"""Frames in what was received or written as a whole."""

from rookery.core.wire.primitives import WireError


def split_frames(data: bytes, limit: int) -> tuple[list[memoryview], memoryview]:
    """The complete frames at the start of `data` and what is left over."""
    view = memoryview(data)
    frames: list[memoryview] = []
    while len(view) >= 4:
        size = int.from_bytes(view[:4], "big", signed=True)
        if not 0 <= size <= limit:
            raise WireError(f"frame of {size} bytes refused: sizes go from 0 to {limit}")
        if len(view) - 4 < size:
            break
        frames.append(view[4 : 4 + size])
        view = view[4 + size :]
    return frames, view
