"""Descriptors clear of the numbers of the standard streams. What is said on a stream is not known here."""

import os
from typing import Final

_LAST_STREAM: Final = 2


def clear(fd: int) -> int:
    """The same open file under a number that no standard stream has.

    Where a program was started with a stream closed, the next file that is opened gets its number. Whatever is then
    said on that stream, a library's warning or the report of a crash, would be written into the file.

    Raises:
        OSError: there are no more numbers; the file is closed then.
    """
    held = [fd]
    try:
        while held[-1] <= _LAST_STREAM:
            held.append(os.dup(held[-1]))
        return held.pop()
    finally:
        for low in held:
            os.close(low)


def pipe() -> tuple[int, int]:
    """A pipe, both ends clear: where it is read, where it is written."""
    reading, writing = os.pipe()
    try:
        reading = clear(reading)
    except BaseException:
        os.close(writing)
        raise
    try:
        return reading, clear(writing)
    except BaseException:
        os.close(reading)
        raise
