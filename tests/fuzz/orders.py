"""Bytes that are read as orders to build a file: whole lines, broken lines, zeros and cuts.

So a small change of them stays near a file that is whole.
"""


class Orders:
    """Bytes, taken piece by piece; from the end of them on, all is zero."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        """The next byte."""
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def number(self, below: int) -> int:
        """A number from 0."""
        return (self.byte() << 8 | self.byte()) % below

    def some(self, most: int) -> bytes:
        """At most so many of the next bytes."""
        start, self._at = self._at, self._at + self.number(most + 1) + 2
        return self._data[start + 2 : self._at]


def built(orders: Orders, lines: list[bytes]) -> bytes:
    """A file by orders: mostly the lines in their order."""
    data, following = b"", 0
    while orders:
        match orders.byte() % 12:
            case 0:
                data += orders.some(40)
            case 1:
                data += b"\0" * orders.number(1500)
            case 2:
                data = data[: len(data) - orders.number(60)]
            case 3 if data:
                at = orders.number(len(data))
                data = data[:at] + bytes([orders.byte()]) + data[at + 1 :]
            case 4 if data:
                at = orders.number(len(data) // 512 + 1) * 512
                data = data[:at] + b"\0" * min(512, len(data) - at) + data[at + 512 :]
            case 5:
                following = orders.number(len(lines))
            case 6:
                data += b"\n"
            case _:
                data += lines[following % len(lines)]
                following += 1
    return data
