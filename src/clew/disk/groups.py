"""A command as one group of processes that ends as a whole, and who still carries a mark. No meaning of either here."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

GRACE_S: Final = 1.0
PATIENCE_S: Final = 5.0


class NotStarted(OSError):
    """The command was not started: nothing ran."""


class Named(NamedTuple):
    """A process in words for a person: its number, what it runs, when it began (milliseconds since 1970)."""

    pid: int
    command: str
    since_ms: int


class GroupEnd(NamedTuple):
    """How a command ended, and what became of the processes it started.

    `exit_code` is None when it was ended by `signal_name`, or (then empty too) lives still, or nobody saw its end.
    `stopped`: it was ended before its time. `ended` had to be told to end; `left` live all the same.
    `watched`: False when its warden was killed.
    """

    exit_code: int | None
    signal_name: str
    ended: tuple[Named, ...]
    left: tuple[Named, ...]
    stopped: bool = False
    watched: bool = True


class Patience(NamedTuple):
    """Seconds between SIGTERM and SIGKILL, and after that."""

    grace_s: float = GRACE_S
    patience_s: float = PATIENCE_S


USUAL: Final = Patience()


if sys.platform == "linux":
    import select

    from clew.disk import warden
    from clew.disk.look import let_go
    from clew.disk.streams import pipe

    _TICK_MS = 50
    _PIECE = 1 << 16
    # What a pipe may hold at the most, so that one who writes for ever does not keep us.
    _LAST_PIECES = 16
    _numbers = itertools.count(1)
    _staying: list[subprocess.Popen[bytes]] = []
    _lock = threading.Lock()

    def run_group(
        program: Sequence[str], folder: str, environment: Mapping[str, str], *,
        take: Callable[[bytes], None], stop: Callable[[], bool], patience: Patience = USUAL,
    ) -> GroupEnd:  # fmt: skip
        """Run a program to its end, and end all that it started before returning. Blocks; no thread, no signal is used.

        A warden starts it: a small process that adopts what loses its parent, so nothing leaves the group unseen. The
        death of this process, or of the calling thread, is the end of the whole group too.

        Args:
            program: Absolute path and arguments.
            folder: Where it runs.
            environment: All of it.
            take: Given what it writes to stdout and stderr, in the order in which it came.
            stop: Asked now and then; once True, the group is ended.
            patience: How long it is waited for.

        Raises:
            NotStarted: nothing ran.

        Source:
            DESIGN §5, stage 6; cases C123, C124.
        """
        group = f"{os.getpid()}.{_tick()}.{next(_numbers)}"
        try:
            hearing, report = pipe()
        except OSError as fault:
            raise NotStarted(str(fault)) from fault
        try:
            try:
                started = _start(program, folder, {**environment, warden.GROUP: group}, report, patience)
            finally:
                let_go(report)
            try:
                said = _attend(started, hearing, take, stop)
                if b"done" not in said:
                    started.wait()
                    return _unwatched(group, patience)
                return _understood(started, said)
            except BaseException:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    started.wait(sum(patience))
                raise
            finally:
                _let_go(started)
        finally:
            let_go(hearing)

    def _start(
        program: Sequence[str], folder: str, environment: dict[str, str], report: int, patience: Patience
    ) -> "subprocess.Popen[bytes]":
        if getattr(sys, "frozen", False) or not sys.executable:
            raise NotStarted("this program has no Python interpreter that could watch over a command")
        told = (str(report), str(os.getpid()), str(patience.grace_s), str(patience.patience_s))
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(warden.__file__)), *told, *program],
                cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                pass_fds=(report,), start_new_session=True, bufsize=0,
            )  # fmt: skip
        except (OSError, ValueError) as fault:
            raise NotStarted(str(fault)) from fault

    def _attend(
        started: "subprocess.Popen[bytes]", hearing: int, take: Callable[[bytes], None], stop: Callable[[], bool]
    ) -> list[bytes]:
        """Hand on what the command writes until its warden has said all it has to say; its lines."""
        assert started.stdout is not None
        output, said, ordered, gone = started.stdout.fileno(), b"", False, False
        poller = select.poll()
        for fd in (output, hearing):
            poller.register(fd, select.POLLIN)
        try:
            # A whole line, for a command may be told of that ends in this very word, as loops of the shell do.
            while not (b"\n" + said).endswith(b"\ndone\n"):
                ready = poller.poll(0 if gone else _TICK_MS)
                if gone and all(fd != hearing for fd, _ in ready):
                    # Heard to its last word. A child that was forked off us may hold the other end, so that it is not
                    # seen to be closed, and what the warden watched over may write for ever.
                    return said.splitlines()
                for fd, _ in ready:
                    piece = os.read(fd, _PIECE)
                    if fd == output and piece:
                        take(piece)
                    elif piece:
                        said += piece
                    elif fd == output:
                        poller.unregister(fd)
                    else:
                        return said.splitlines()
                if not ordered and stop():
                    ordered = True
                    _order_end(started)
                gone = started.poll() is not None
        finally:
            # Whatever struck us, the group is ended.
            _order_end(started)
        _drain(output, take)
        return said.splitlines()

    def _order_end(started: "subprocess.Popen[bytes]") -> None:
        """In a word, for the end of its input alone is not seen while a child that was forked off us holds it too."""
        assert started.stdin is not None
        if not started.stdin.closed:
            with contextlib.suppress(OSError):
                os.write(started.stdin.fileno(), b"end\n")
            started.stdin.close()

    def _drain(output: int, take: Callable[[bytes], None]) -> None:
        """What is in the pipe still; one that could not be ended may hold its other end."""
        os.set_blocking(output, False)
        try:
            for _ in range(_LAST_PIECES):
                piece = os.read(output, _PIECE)
                if not piece:
                    return
                take(piece)
        except BlockingIOError:
            pass

    def _understood(started: "subprocess.Popen[bytes]", said: Iterable[bytes]) -> GroupEnd:
        words: dict[str, list[list[str]]] = {}
        for line in said:
            word, *rest = line.decode("utf-8", "replace").split(" ", 3)
            words.setdefault(word, []).append(rest)
        if "failed" in words:
            raise NotStarted(os.strerror(int(words["failed"][0][0])))
        if "status" not in words:
            raise NotStarted("the command was called off before it began")
        ended, left = (tuple(map(_named, words.get(word, ()))) for word in ("ended", "left"))
        if not left:
            started.wait()
        status = words["status"][0][0]
        code = None if status == "-" else os.waitstatus_to_exitcode(int(status))
        stopped = "stopped" in words
        if code is not None and code < 0:
            return GroupEnd(None, signal_name(-code), ended, left, stopped)
        return GroupEnd(code, "", ended, left, stopped)

    def _unwatched(group: str, patience: Patience) -> GroupEnd:
        """The warden was killed, and with it the command's first process: end what still carries the group's mark."""

        def left() -> list[warden.Process]:
            return warden.carrying(warden.GROUP, group, warden.processes())

        told, remain = warden.end_all(left, time.sleep, *patience)
        gone = tuple(_words(process, what) for process, what in told.items() if process not in remain)
        return GroupEnd(None, "", gone, tuple(_words(process, told[process]) for process in remain), watched=False)

    def _let_go(started: "subprocess.Popen[bytes]") -> None:
        """A warden lives as long as what it could not end; it is waited for when another command is started."""
        assert started.stdout is not None
        started.stdout.close()
        with _lock:
            _staying.append(started)
            _staying[:] = [each for each in _staying if each.poll() is None]

    def carriers(name: str, prefix: str) -> dict[str, list[Named]]:
        """Processes that carry a variable whose value begins so, and their descendants, by that value.

        Of a warden only what it watches over is told, unless that is hidden.
        """
        found: dict[str, dict[warden.Process, Named]] = {}
        for value, process in warden.marks(name, prefix):
            if process.pid != os.getpid():
                found.setdefault(value, {})[process] = _words(process, warden.command_of(process.pid))
        return {
            value: [named for named in those.values() if not warden.is_warden(named.pid)] or list(those.values())
            for value, those in found.items()
        }

    def end_carriers(
        mark: str, prefix: str, proof: str, values: Collection[str], *, spared: Collection[int] | None,
        patience: Patience = USUAL,
    ) -> dict[str, list[Named]]:  # fmt: skip
        """End who provably carries a mark that begins so (`warden.proven`), and what descends from those. Blocks.

        Args:
            mark: The variable.
            prefix: How its value begins.
            proof: Another variable.
            values: Those of it that prove something.
            spared: None: only who carries the mark. Else whatever descends from this process as well, but for these.
            patience: Between SIGTERM and SIGKILL, and after that.

        Returns:
            Those that live all the same, by their mark; one without a mark under an empty text.
        """
        me = os.getpid()

        def theirs() -> dict[warden.Process, str]:
            found = warden.proven(mark, prefix, proof, values, me)
            if spared is not None:
                below = warden.below(me, warden.processes())
                found = {process: "" for process in below if process.pid not in spared} | found
            return found

        _, remain = warden.end_all(lambda: list(theirs()), time.sleep, *patience)
        marks, left = theirs() if remain else {}, dict[str, list[Named]]()
        for process in remain:
            left.setdefault(marks.get(process, ""), []).append(_words(process, warden.command_of(process.pid)))
        return left

    def strays(spared: Collection[int], known: Iterable[Iterable[Named]]) -> list[Named]:
        """What descends from this process and is neither spared nor known. Wardens look after their own."""
        told = {named.pid for those in known for named in those}
        living = warden.processes()
        wardens = [process for process in warden.below(os.getpid(), living) if warden.is_warden(process.pid)]
        told |= {process.pid for each in wardens for process in (each, *warden.below(each.pid, living))}
        found = [process for process in warden.below(os.getpid(), living) if process.pid not in {*spared, *told}]
        return [_words(process, warden.command_of(process.pid)) for process in found]

    @contextlib.contextmanager
    def adopting() -> Iterator[frozenset[int]]:
        """While it lasts, what loses its parent below this process stays below it. Gives who is there already."""
        warden.adopt(True)
        try:
            yield frozenset(process.pid for process in warden.below(os.getpid(), warden.processes()))
        finally:
            warden.adopt(False)

    def _named(fields: Sequence[str]) -> Named:
        pid, tick, command = fields
        return _words(warden.Process(int(pid), int(tick)), command)

    def _words(process: warden.Process, command: str) -> Named:
        return Named(process.pid, command, _boot_ms() + process.tick * 1000 // os.sysconf("SC_CLK_TCK"))

    def _boot_ms() -> int:
        lines = Path("/proc/stat").read_bytes().splitlines()
        return next((int(line.split()[1]) * 1000 for line in lines if line.startswith(b"btime ")), 0)

    def _tick() -> int:
        me = warden.seen(os.getpid())
        if me is None:
            raise NotStarted("procfs does not show this very process, so nobody could watch over a command")
        return me.tick

else:

    def run_group(
        program: Sequence[str], folder: str, environment: Mapping[str, str], *,
        take: Callable[[bytes], None], stop: Callable[[], bool], patience: Patience = USUAL,
    ) -> GroupEnd:  # fmt: skip
        """Not ported: a job object would be the way on Windows."""
        raise NotStarted("commands as a group that ends as a whole are not ported to this system yet")

    def carriers(name: str, prefix: str) -> dict[str, list[Named]]:
        """Nobody: no command is ever started here."""
        return {}

    def end_carriers(
        mark: str, prefix: str, proof: str, values: Collection[str], *, spared: Collection[int] | None,
        patience: Patience = USUAL,
    ) -> dict[str, list[Named]]:  # fmt: skip
        """Nobody is found, so nobody is ended."""
        return {}

    def strays(spared: Collection[int], known: Iterable[Iterable[Named]]) -> list[Named]:
        """Nobody: nothing is adopted here."""
        return []

    @contextlib.contextmanager
    def adopting() -> Iterator[frozenset[int]]:
        """Nothing is adopted here."""
        yield frozenset()


def signal_name(number: int) -> str:
    """A signal as people write it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
