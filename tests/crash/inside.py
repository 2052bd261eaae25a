"""Faults inside a process: an exception at the n-th bytecode of clew, no memory at the n-th allocation, once or on."""

import dis
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import clew

CLEW: Final = str(Path(clew.__file__).parent)
NEVER: Final = 1 << 60
_MANY: Final = 5_000


@cache
def _unstruck(code: CodeType) -> frozenset[int]:
    """Where CPython raises nothing and delivers no signal, so that its `with` and `try` do not cover it.

    These are `NOP`, `SWAP`, and the way from the end of a `with` to the call of its `__exit__`: None three times.
    """
    raw = code.co_code
    steps = [(at, dis.opname[raw[at]], raw[at + 1]) for at in range(0, len(raw), 2) if raw[at]]
    found = {at for at, name, _ in steps if name in ("NOP", "SWAP")}
    for number, (at, name, _) in enumerate(steps):
        if name == "CALL":
            leaving = steps[max(number - (4 if steps[number - 1][1] == "PRECALL" else 3), 0) : number]
            if [code.co_consts[which] for _, one, which in leaving[:3] if one == "LOAD_CONST"] == [None] * 3:
                found |= {at, *(one[0] for one in leaving)}
    return frozenset(found)


class Counting:
    """How many bytecodes of clew were walked so far."""

    def __init__(self) -> None:
        self.done = 0


@contextmanager
def interrupted_at(number: int, counting: Counting, of: str = "") -> Iterator[None]:
    """Ctrl-C at the n-th bytecode that is walked within it in any function of clew, or `of` a file, in this thread."""

    def within(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode" and frame.f_lasti not in _unstruck(frame.f_code):
            counting.done += 1
            if counting.done == number:
                raise KeyboardInterrupt
        return within

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(CLEW + of):
            return None
        frame.f_trace_opcodes = True
        return within

    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(None)


class WithoutMemory:
    """The n-th allocation within it is refused; with `goes_on` the thousands behind it too, or until it is left.

    A class of its own, for leaving a generator needs memory.
    """

    def __init__(self, number: int, *, goes_on: bool) -> None:
        import _testcapi  # type: ignore[import-not-found]  # CPython's own, for its own tests

        self._begin, self._end = _testcapi.set_nomemory, _testcapi.remove_mem_hooks
        self._from, self._to = number, number + (_MANY if goes_on else 1)

    def __enter__(self) -> None:
        self._begin(self._from, self._to)

    def __exit__(self, *raised: object) -> None:
        self._end()


@contextmanager
def _told(number: int, told: Any, of: str) -> Iterator[None]:
    counting = Counting()
    try:
        with interrupted_at(number, counting, of):
            yield
    finally:
        told.kept("points", counting.done)


def struck(how: str, number: int, told: Any) -> AbstractContextManager[None]:
    """One of these faults by its name, `bytecode/a/file.py` among them; how many there were of these is told too."""
    if how.startswith("bytecode"):
        return _told(number, told, how.removeprefix("bytecode"))
    assert how in ("memory", "memory from then on"), how
    return WithoutMemory(number, goes_on=how != "memory")
