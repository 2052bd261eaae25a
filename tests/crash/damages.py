"""What the death of a process or of a machine leaves of its last append, of ten kinds; each of them is legal."""

from collections.abc import Callable

from clew.core.records import Batch

Tear = Callable[[Batch, int], bytes | None]
"""What is left of an append whose first byte has this place; None to append it as ever."""
SECTOR = 512


def _first_line(data: bytes) -> int:
    return data.index(b"\n") + 1


def _without_sector(data: bytes, at: int, number: int) -> bytes:
    """The bytes with the `number`-th whole sector of the file that lies in them read as zeros."""
    begin = -at % SECTOR + number * SECTOR
    return data[:begin] + bytes(len(data[begin : begin + SECTOR])) + data[begin + SECTOR :]


DAMAGES: dict[str, Callable[[bytes, int], bytes]] = {
    "one-byte": lambda data, at: data[:1],
    "half-a-line": lambda data, at: data[: _first_line(data) // 2],
    "a-line-without-its-end": lambda data, at: data[: _first_line(data) - 1],
    "a-whole-line": lambda data, at: data[: _first_line(data)],
    "a-line-and-a-half": lambda data, at: data[: _first_line(data) + 100],
    "all-but-the-last-end": lambda data, at: data[:-1],
    "nothing-but-its-size": lambda data, at: bytes(len(data)),
    "the-first-sector-is-missing": lambda data, at: _without_sector(data, at, 0),
    "the-second-sector-is-missing": lambda data, at: _without_sector(data, at, 1),
    "what-comes-before-the-first-sector-is-missing": lambda data, at: bytes(-at % SECTOR) + data[-at % SECTOR :],
}


def torn(number: int, damage: str) -> Tear:
    """Die in the first append that begins with this record or a later one."""
    return lambda batch, at: DAMAGES[damage](batch.data, at) if batch.first >= number else None
