"""Death at one append: a store around another that writes a part of it, or all, or nothing, and then raises."""

from typing import Any, cast

import msgspec

from clew.core.records import Batch
from clew.stores.base import RunStore


class Crash(BaseException):
    """The process died here. Nobody was told whether the append is on disk."""


class CrashPoint:
    """Where a process dies, and what it has counted so far. Lives for one leg; give the next one another point.

    Attributes:
        at_append: The append at which it dies, counted from 1 without the birth; 0 for never.
        keep: How much of that append reaches the disk, as bytes; None for all of it.
        appends: The records of each append so far.
        struck: Has it died?
    """

    def __init__(self, at_append: int = 0, keep: int | None = None) -> None:
        self.at_append = at_append
        self.keep = keep
        self.appends: list[Batch] = []
        self.struck = False

    def take(self, batch: Batch) -> Batch | None:
        """The batch that reaches the disk if the process dies now, None when it lives on."""
        self.appends.append(batch)
        if len(self.appends) != self.at_append:
            return None
        self.struck = True
        return batch if self.keep is None else msgspec.structs.replace(batch, data=batch.data[: self.keep])


class _CrashingWriter:
    def __init__(self, inner: Any, point: CrashPoint) -> None:
        self._inner = inner
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        """Append, or die; the dead write nothing more."""
        if self._point.struck:
            raise Crash(f"died at append {self._point.at_append}")
        left = self._point.take(batch)
        if left is None:
            return int(self._inner.append(batch, starts_effect=starts_effect))
        if left.data:
            self._inner.append(left)
        raise Crash(f"died at append {self._point.at_append}")


class _CrashingStore:
    def __init__(self, inner: RunStore, point: CrashPoint) -> None:
        self._inner = inner
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create(self, *given: Any, **how: Any) -> Any:
        return _CrashingWriter(self._inner.create(*given, **how), self._point)

    def open(self, *given: Any, **how: Any) -> Any:
        return _CrashingWriter(self._inner.open(*given, **how), self._point)


def crashing(inner: RunStore, point: CrashPoint) -> RunStore:
    """A run store that is `inner`, except that its writers die at `point`.

    Source:
        DESIGN §3, "write the walk once"; reliability.md, crash states.
    """
    return cast(RunStore, _CrashingStore(inner, point))
