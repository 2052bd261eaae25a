"""What the code of an agent may do outside of its scratch folder while it is tried: nothing. Refused and written down.

Python tells of each file it opens for writing and each connection before it is made (audit events); what programs that
the agent starts do, and what a library does past Python, is not seen here.
"""

import errno
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, NamedTuple

from clew.certify.ledger import Ledger

Part = Literal["agent", "free", "workspace", "probe", "live"]


class Doing(NamedTuple):
    """Whose code runs: the agent's own, a tool's of effect none or workspace, a probe; or anybody's, live."""

    part: Part
    what: str


AGENT: Final = Doing("agent", "the agent")
DOING: Final[ContextVar[Doing]] = ContextVar("clew_certify_doing", default=AGENT)

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Event -> which of its arguments are paths that change.
_CHANGES: Final = {
    "os.mkdir": (0,), "os.rmdir": (0,), "os.remove": (0,), "os.rename": (0, 1), "os.link": (1,), "os.symlink": (1,),
    "os.truncate": (0,), "os.chmod": (0,), "os.chown": (0,), "os.utime": (0,), "os.setxattr": (0,),
    "os.removexattr": (0,), "sqlite3.connect": (0,),
}  # fmt: skip
_REACHES: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"})
_STARTS: Final = frozenset({"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"})
_HARMLESS: Final = ("/dev/null", "/dev/tty", "/dev/stdout", "/dev/stderr", "/proc/self/")
_WORDS: Final = {"probe": "probe_writes", "free": "free_tool_writes"}


class Guard:
    """Sees to it for as long as the process lives; there is one in a leg."""

    def __init__(self, ledger: Ledger, work: str, own: Sequence[str], may_write: Sequence[str]) -> None:
        self._ledger = ledger
        self._work = os.path.realpath(work)
        self._own = tuple(map(os.path.realpath, own))
        self._outside = tuple(map(os.path.realpath, may_write))
        self._busy = threading.local()
        self._looking = 0

    def install(self) -> None:
        """From now on; there is no way back."""
        sys.addaudithook(self.hear)

    @contextmanager
    def doing(self, doing: Doing) -> Iterator[None]:
        """While it lasts this code runs. A tool that only looks may connect, from threads of its own too."""
        token = DOING.set(doing)
        self._looking += doing.part == "free"
        try:
            yield
        finally:
            self._looking -= doing.part == "free"
            DOING.reset(token)

    def hear(self, event: str, given: tuple[Any, ...]) -> None:
        """What Python is about to do.

        Raises:
            PermissionError, ConnectionRefusedError: it may not; it is written down.
        """
        if event != "open" and event not in _CHANGES and event not in _REACHES and event not in _STARTS:
            return
        if getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            self._judge(event, given)
        finally:
            self._busy.now = False

    def _judge(self, event: str, given: tuple[Any, ...]) -> None:
        doing = DOING.get()
        if event in _REACHES:
            self._reached(doing, given[:2] if event == "socket.getaddrinfo" else given[-1])
        elif event in _STARTS:
            self._started(doing, given)
        else:
            for path in _written(event, given):
                self._wrote(doing, path)

    def _wrote(self, doing: Doing, path: str) -> None:
        found = os.path.realpath(path)
        if doing.part == "live" or path.startswith(_HARMLESS) or _below(found, self._own):
            return
        inside = _below(found, (self._work, *self._outside))
        code = _WORDS.get(doing.part, "" if inside else "writes_outside")
        if not code:
            return
        place = os.path.relpath(found, self._work) if inside else found
        self._ledger.say("found", code, f"{doing.what} writes {place!r}, which was refused", doing.what)
        raise PermissionError(errno.EACCES, "clew certify lets nothing be written here", path)

    def _reached(self, doing: Doing, whom: Any) -> None:
        if doing.part == "live" or self._looking or self._is_own(whom):
            return
        if doing.part != "probe":
            said = f"{doing.what} connects to {_address(whom)}, which was refused"
            self._ledger.say("found", "network_past_gate", said, doing.what)
        raise ConnectionRefusedError(errno.ECONNREFUSED, "clew certify lets nobody be reached from here")

    def _is_own(self, whom: Any) -> bool:
        """Is it a socket in the agent's own folders, by which it speaks to processes of its own?"""
        if not isinstance(whom, str | bytes) or not os.fsdecode(whom).startswith(os.sep):
            return False
        return _below(os.path.realpath(os.fsdecode(whom)), (self._work, *self._own))

    def _started(self, doing: Doing, given: tuple[Any, ...]) -> None:
        if doing.part == "probe":
            raise PermissionError(errno.EACCES, "clew certify lets a probe start nothing")
        if doing.part != "live":
            name = (
                os.path.basename(os.fsdecode(given[0])) if given and isinstance(given[0], str | bytes) else "a program"
            )
            self._ledger.say("noted", "unwatched_program", f"{doing.what} starts {name}: what that does is not watched")


def _written(event: str, given: tuple[Any, ...]) -> Iterator[str]:
    """The paths that are about to change; what is no path but an open descriptor was judged when it was opened."""
    if event == "open":
        if not isinstance(given[2], int) or not given[2] & _WRITES:
            return
        places: Sequence[int] = (0,)
    else:
        places = _CHANGES[event]
    for place in places:
        path = given[place]
        if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path) not in (":memory:", ""):
            text = os.fsdecode(path)
            yield text[len("file:") :].partition("?")[0] if text.startswith("file:") else text


def _address(whom: Any) -> str:
    if isinstance(whom, tuple) and len(whom) > 1:
        host = whom[0].decode() if isinstance(whom[0], bytes) else whom[0]
        return f"{host}:{whom[1]}"
    return os.fsdecode(whom) if isinstance(whom, str | bytes) else str(whom)


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}{os.sep}") for folder in folders)
