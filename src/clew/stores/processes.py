"""The processes that calls start on this machine, and those that live still. What a call means by them is not known."""

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from clew.core.times import format_ms
from clew.disk.groups import Named, NotStarted, Patience, adopting, carriers, end_carriers, run_group, strays
from clew.errors import Refused
from clew.stores.base import UNMARKED, CommandEnd, Order

SHELL = "/bin/sh"
MARK = "CLEW_CALL"
LEG = "CLEW_LEG"
_BY_OTHERS = "the process that watched over it was told to end, and not by this program"


class LocalProcesses:
    """Processes of this machine, of this user (`stores.base.Processes`). Safe for any number of threads.

    Args:
        monotonic_s: The clock by which durations are measured.
        patience: How long the processes of a command are waited for, after SIGTERM and after SIGKILL.

    Source:
        DESIGN §5, stage 6; cases C123, C124.
    """

    def __init__(self, monotonic_s: Callable[[], float], *, patience: Patience | None = None) -> None:
        self._monotonic_s = monotonic_s
        self._patience = patience or Patience()
        self._spared: frozenset[int] | None = None

    def run(self, order: Order, stop: Callable[[], str]) -> CommandEnd:
        """Run a command with `/bin/sh -c` as a group that has ended as a whole when this returns.

        It has this process's environment and `CLEW_CALL`, an empty input, a session and a group of its own.

        Raises:
            Refused: `command_not_started`; nothing ran.
        """
        kept, stopped = _Kept(order.head_bytes, order.tail_bytes), list[str]()
        since_s = self._monotonic_s()

        def is_over() -> bool:
            stopped[:] = [why for why in (stop(),) if why]
            return bool(stopped)

        try:
            end = run_group(
                [SHELL, "-c", order.command],
                order.folder,
                {**os.environ, MARK: order.mark, LEG: order.leg},
                take=kept.take,
                stop=is_over,
                patience=self._patience,
            )
        except NotStarted as fault:
            raise _not_started(order, fault) from fault
        duration_ms = round((self._monotonic_s() - since_s) * 1000)
        return CommandEnd(
            exit_code=end.exit_code,
            signal_name=end.signal_name,
            head=bytes(kept.head),
            tail=kept.tail(),
            size_bytes=kept.size_bytes,
            duration_ms=duration_ms,
            stopped=("".join(stopped) or _BY_OTHERS) if end.stopped else "",
            ended=tuple(map(_words, end.ended)),
            left=tuple(map(_words, end.left)),
            watched=end.watched,
        )

    def living(self, run_id: str) -> dict[str, str]:
        """Attempts `key#attempt` of a run of which a process lives here, and which ones, in words."""
        found = carriers(MARK, f"{run_id}:")
        mine = [] if self._spared is None else strays(self._spared, found.values())
        return _in_words(found | ({UNMARKED: mine} if mine else {}))

    def end(self, run_id: str, legs: Collection[str]) -> dict[str, str]:
        """End the processes of a run that are provably of it; those that live all the same are returned, in words."""
        proofs = [leg for leg in legs if leg]
        left = end_carriers(MARK, f"{run_id}:", LEG, proofs, spared=self._spared, patience=self._patience)
        return _in_words({mark or UNMARKED: those for mark, those in left.items()})

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """While it lasts, what this process starts is the run's, also what loses its parent; not what was before."""
        with adopting() as there:
            self._spared = there
            try:
                yield
            finally:
                self._spared = None


class _Kept:
    """What a command wrote: its beginning, its end, its length."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self.head = bytearray()
        self.size_bytes = 0
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._pieces: deque[bytes] = deque()
        self._in_pieces = 0

    def take(self, piece: bytes) -> None:
        """The next piece."""
        self.size_bytes += len(piece)
        room = self._head_bytes - len(self.head)
        self.head += piece[:room]
        rest = piece[room:]
        if not rest:
            return
        self._pieces.append(rest)
        self._in_pieces += len(rest)
        while self._pieces and self._in_pieces - len(self._pieces[0]) >= self._tail_bytes:
            self._in_pieces -= len(self._pieces.popleft())

    def tail(self) -> bytes:
        """The end, as far as it is not in the beginning."""
        whole = b"".join(self._pieces)
        return whole[max(0, len(whole) - self._tail_bytes) :]


def _in_words(found: Mapping[str, Iterable[Named]]) -> dict[str, str]:
    return {mark: ", ".join(map(_words, sorted(those))) for mark, those in found.items()}


def _words(process: Named) -> str:
    return f"pid {process.pid} ({process.command}) since {format_ms(process.since_ms)}"


def _not_started(order: Order, fault: Exception) -> Refused:
    return Refused(
        f"the command was not started in {order.folder!r}: {fault}",
        code="command_not_started",
        next="Mend what the message names; nothing ran.",
        folder=order.folder,
    )
