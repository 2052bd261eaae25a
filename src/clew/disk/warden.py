"""The warden of one command: a small process that starts it, sees all that it starts, and ends all of that. Linux only.

It is run as a script by a bare interpreter, which is quick, so nothing of clew is imported here. What it knows of
procfs serves clew's own processes too.

It is told to end the command by a word on its input, or by the end of that, which the death of clew's process brings
about. What it says is lines: `failed ERRNO`, `stopped` when it was told to end the command before that had ended by
itself, `ended …` and `left …` a process each, `status N`, and `done` as the last.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

# Everything here is for Linux; on another system this is a module without names.
assert sys.platform == "linux"

GROUP = "CLEW_GROUP"
_SET_DEATH_SIGNAL, _SET_NAME, _SET_SUBREAPER = 1, 15, 36
_NAME = b"clew-warden"
_NAP_S = 0.02
_COMMAND_BYTES = 200
# Fields of `/proc/PID/stat` behind the name, and the flags of a kernel thread and of one that ends.
_FLAGS, _ARGUMENTS, _ENV = 6, slice(45, 47), slice(47, 49)
_WITHOUT_PROGRAM = 0x00200000 | 0x00000004
_EXEC_LOOKS, _EXEC_NAP_S = 200, 0.001


class Process(NamedTuple):
    """A process by its number and start tick, which no other ever has in this boot; a zombie is none."""

    pid: int
    tick: int


Living = Mapping[Process, int]
"""Processes with the number of their parent, which changes when that one ends."""


# What procfs says.


def processes() -> Living:
    """All that live now and that procfs shows; none where there is no procfs."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    return dict(filter(None, (_stat(int(name)) for name in names if name.isdecimal())))


def seen(pid: int) -> Process | None:
    """The process of this number, if one lives: a zombie whose threads have all ended does not."""
    found = _stat(pid)
    return None if found is None else found[0]


def _stat(pid: int) -> tuple[Process, int] | None:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if not fields or (fields[0] in (b"Z", b"X", b"x") and int(fields[17]) <= 1):
        return None
    return Process(pid, int(fields[19])), int(fields[1])


def below(root: int, living: Living) -> list[Process]:
    """The descendants of a process; each once: a look takes time, and a number given anew amid it makes circles."""
    found, ahead = dict[Process, None](), {root}
    while ahead:
        children = [process for process, parent in living.items() if parent in ahead and process not in found]
        found.update(dict.fromkeys(children))
        ahead = {process.pid for process in children}
    return list(found)


def carrying(name: str, value: str, living: Living) -> list[Process]:
    """Those that were given this variable at their start; one whose environment is hidden from us is not found."""
    wanted = f"{name}={value}".encode()
    return [process for process in living if wanted in _environment(process.pid)]


def command_of(pid: int) -> str:
    """What a process runs, as a short text; a kernel's or hidden one by its name alone."""
    words = _given(pid, "cmdline", _ARGUMENTS)[:_COMMAND_BYTES].rstrip(b"\0") or b"[%s]" % (
        _read(pid, "comm").strip() or b"hidden"
    )
    return " ".join(words.replace(b"\0", b" ").decode("utf-8", "replace").split())


def is_warden(pid: int) -> bool:
    """Is it one of these scripts?"""
    return _read(pid, "comm").strip() == _NAME


def _environment(pid: int) -> list[bytes]:
    """What a process was given at its start; nothing where that is hidden from us."""
    return _given(pid, "environ", _ENV).split(b"\0")


def _given(pid: int, name: str, bounds: slice) -> bytes:
    """What a program was started with. It looks empty for a moment, while one program gives way to the next (`execve`).

    `bounds` are where in `stat` the kernel says from where to where it lies.
    """
    for _ in range(_EXEC_LOOKS):
        content = _content(pid, name)
        if content or content is None or not _comes_yet(pid, bounds):
            return content or b""
        time.sleep(_EXEC_NAP_S)
    return b""


def _comes_yet(pid: int, bounds: slice) -> bool:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if not fields or int(fields[_FLAGS]) & _WITHOUT_PROGRAM:
        return False
    start, end = fields[bounds]
    return end == b"0" or start != end


def _read(pid: int, name: str) -> bytes:
    return _content(pid, name) or b""


def _content(pid: int, name: str) -> bytes | None:
    """None: it may not be read, or nothing lives there."""
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return b"".join(iter(lambda: os.read(fd, 1 << 16), b""))
    except OSError:
        return None
    finally:
        _let_go(fd)


def _let_go(fd: int) -> None:
    """Close what was only read or held: its refusal changes nothing."""
    with contextlib.suppress(OSError):
        os.close(fd)


# Ending.


def end_all(
    left: Callable[[], list[Process]], wait: Callable[[float], None], grace_s: float, patience_s: float
) -> tuple[dict[Process, str], list[Process]]:
    """Tell all that are left to end, by SIGTERM and then by SIGKILL, and look again until none is left.

    Args:
        left: What lives now; what is started meanwhile is found at the next look.
        wait: Lets a moment pass.
        grace_s: Seconds after SIGTERM.
        patience_s: Seconds after SIGKILL.

    Returns:
        All that were told, with what they ran, and those that live all the same.
    """
    told: dict[Process, str] = {}
    remain = left()
    for number, seconds in ((signal.SIGTERM, grace_s), (signal.SIGKILL, patience_s)):
        until, struck = time.monotonic() + seconds, set[Process]()
        while remain:
            for process in (process for process in remain if process not in struck):
                told[process] = told.get(process) or command_of(process.pid)
                _strike(process, number)
            struck |= set(remain)
            if time.monotonic() >= until:
                break
            wait(_NAP_S)
            remain = left()
    return told, remain


def _strike(process: Process, number: int) -> None:
    """Signal this very process and no later one of its number; a stopped one is let go on, so that it hears it."""
    with contextlib.suppress(OSError):
        held = _held(process.pid)
        try:
            for each in (number, signal.SIGCONT) if seen(process.pid) == process else ():
                if held is None:
                    os.kill(process.pid, each)
                else:
                    signal.pidfd_send_signal(held, each)
        finally:
            if held is not None:
                _let_go(held)


def _held(pid: int) -> int | None:
    """A descriptor that stands for a process whatever becomes of its number; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError) as fault:
        if isinstance(fault, ProcessLookupError):
            raise
        return None


# The script.


class Warden:
    """The process itself. Its input, SIGTERM, or the end of the command's first process begin the ending."""

    def __init__(self, report: int, group: str) -> None:
        self.status: int | None = None
        self._report = report
        self._group = group
        self._ordered = False
        self._main = 0
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)

    def watch(self, program: Sequence[str], grace_s: float, patience_s: float) -> None:
        """Start the command, see it to its end, end what it left behind, and say so."""
        self._main = _start(program, self._report)
        while self.status is None and not self._ordered:
            self._wait(None)
            self._reap()
        if self.status is None:
            self.say("stopped")
        told, left = end_all(self._left, self._wait, grace_s, patience_s)
        for word, found in (("ended", [process for process in told if process not in left]), ("left", left)):
            for process in (process for process in found if process.pid != self._main or word == "left"):
                self.say(f"{word} {process.pid} {process.tick} {told[process]}")
        self.say("status -" if self.status is None else f"status {self.status}")
        self.say("done")

    def stay(self) -> None:
        """Live as long as what could not be ended: who looks for the attempt's processes finds at least this one."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._ordered = True
        os.chdir("/")
        for fd in (0, 1, 2, self._report):
            os.close(fd)
        while self._left():
            self._wait(1.0)

    def say(self, line: str) -> None:
        """One line to whoever listens."""
        with contextlib.suppress(OSError):
            os.write(self._report, line.encode("utf-8", "replace") + b"\n")

    def _left(self) -> list[Process]:
        """Descendants, for what loses its parent becomes a child of this process, and others that carry the mark.

        That the kernel knows of a child which procfs does not show is said with a process of number 0.
        """
        living, me = processes(), os.getpid()
        # Behind the look: who died meanwhile is no child any more.
        has_children = self._reap()
        found = dict.fromkeys([*below(me, living), *carrying(GROUP, self._group, living)])
        seen_ones = [process for process in found if process.pid != me]
        return seen_ones if seen_ones or not has_children else [Process(0, 0)]

    def _wait(self, seconds: float | None) -> None:
        ready, _, _ = select.select([self._woken] if self._ordered else [self._woken, 0], [], [], seconds)
        if self._woken in ready:
            self._ordered |= signal.SIGTERM in os.read(self._woken, 4096)
        self._ordered |= 0 in ready

    def _reap(self) -> bool:
        """Take in who has died; is there a child that has not?"""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._main:
                self.status = status


def _start(program: Sequence[str], report: int) -> int:
    """The command in a session and group of its own, killed should the warden die. Returns its number."""
    warden = os.getpid()
    try:
        pid = os.fork()
    except OSError as fault:
        os.write(report, b"failed %d\ndone\n" % (fault.errno or 0))
        sys.exit(1)
    if pid:
        return pid
    try:
        os.setsid()
        _control(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != warden:
            os._exit(127)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(program[0], [*program])
    except OSError as fault:
        os.write(report, b"failed %d\n" % (fault.errno or 0))
    finally:
        os._exit(127)


def _control(option: int, value: int | bytes) -> None:
    """`prctl`. A kernel that does not know the option goes without."""
    given = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    ctypes.CDLL(None).prctl(option, given, *(ctypes.c_ulong(0) for _ in range(3)))


def main(arguments: Sequence[str]) -> None:
    """`warden.py REPORT OWNER GRACE_S PATIENCE_S PROGRAM …`: descriptor to report to, process to serve, seconds."""
    report, owner, grace_s, patience_s, *program = arguments
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    warden = Warden(int(report), os.environ[GROUP])
    os.set_inheritable(int(report), False)
    _control(_SET_NAME, _NAME)
    _control(_SET_SUBREAPER, 1)
    _control(_SET_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != int(owner):
        warden.say("done")
        return
    warden.watch(program, float(grace_s), float(patience_s))
    warden.stay()


def marks(name: str, prefix: str) -> Iterator[tuple[str, Process]]:
    """Values of a variable that begin like this, each with a process that carries it or descends from one that does."""
    living = processes()
    wanted = f"{name}={prefix}".encode()
    for process in living:
        found = [value for value in _environment(process.pid) if value.startswith(wanted)]
        if found:
            value = found[0][len(name) + 1 :].decode("utf-8", "replace")
            yield value, process
            yield from ((value, child) for child in below(process.pid, living))


def proven(mark: str, prefix: str, proof: str, values: Collection[str], root: int) -> dict[Process, str]:
    """Who carries a mark that begins so and proves that it is meant, and all that descend from those, by that mark.

    A proof is descent from `root`, or another variable with one of these values, which only one program gave away.
    """
    living = processes()
    inside = set(below(root, living))
    wanted, proofs = f"{mark}={prefix}".encode(), {f"{proof}={value}".encode() for value in values}
    found: dict[Process, str] = {}
    for process in living:
        given = _environment(process.pid)
        marked = next((value for value in given if value.startswith(wanted)), None)
        if marked is not None and (process in inside or not proofs.isdisjoint(given)):
            value = marked[len(mark) + 1 :].decode("utf-8", "replace")
            found |= dict.fromkeys([process, *below(process.pid, living)], value)
    return {process: value for process, value in found.items() if process.pid not in _upwards(root, living)}


def _upwards(pid: int, living: Living) -> set[int]:
    """A process and those that it descends from: whatever they carry, they are not one's own to end."""
    parents, found = {process.pid: parent for process, parent in living.items()}, set[int]()
    while pid and pid not in found:
        found.add(pid)
        pid = parents.get(pid, 0)
    return found


def adopt(whether: bool) -> None:
    """What loses its parent below this process becomes its child, and so stays below it; or no longer does."""
    _control(_SET_SUBREAPER, int(whether))


if __name__ == "__main__":
    main(sys.argv[1:])
