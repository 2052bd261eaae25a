"""A fork server: it imports the agent once, and makes a process for each leg, watched by a keeper. Linux only."""

import contextlib
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from clew.certify.leg import live_leg
from clew.certify.orders import LegEnd, LegOrder, LegReport
from clew.certify.standins import Troupe
from clew.errors import ClewError, Refused
from clew.runtime.home import Home
from clew.runtime.tools import Agent

ORDER_BYTES: Final = 1 << 20
LANDING_S: Final = 1.0
"""So long after a leg's end its processes may end by themselves."""
LOOK_S: Final = 0.02


class Facts(msgspec.Struct, frozen=True):
    """What a server says once it has imported the agent: what that is, or why it cannot be tried."""

    agent: str = ""
    tools: tuple[str, ...] = ()
    fault: tuple[str, str, str] | None = None
    refused: bool = False


def serve(load: Callable[[], Agent], control: socket.socket) -> int:
    """Import the agent, say what it is, and make a leg for each order until nobody is left who could give one.

    An order comes with a connection of its own, on which its report goes back (see `LegReport`).
    """
    troupe = Troupe()
    troupe.engage()
    try:
        agent = load()
        require_forkable()
    except ClewError as fault:
        said = Facts(fault=(fault.code, fault.message, fault.next), refused=isinstance(fault, Refused))
        # Whoever asked may have heard it from another server, and be gone.
        with contextlib.suppress(OSError):
            control.send(msgspec.json.encode(said))
        return fault.exit_code
    control.send(msgspec.json.encode(Facts(agent.name, tuple(agent.tools))))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        word, fds, _, _ = socket.recv_fds(control, 1, 1)
        if not word:
            return 0
        answering = socket.socket(fileno=fds[0])
        if os.fork() == 0:
            control.close()
            _keep(answering, agent, troupe)
        answering.close()


def require_forkable() -> None:
    """A process with threads cannot be copied: the copy would wait for ever for what they hold.

    Raises:
        Refused: `agent_not_forkable`.
    """
    others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if others:
        raise Refused(
            f"importing the agent starts threads ({', '.join(others)}), and a process with threads cannot be copied",
            code="agent_not_forkable",
            next="Start them when the agent runs, not when its file is imported.",
            threads=others,
        )


def _keep(answering: socket.socket, agent: Agent, troupe: Troupe) -> None:
    """The keeper of one leg: makes it, sees to its end and to what it leaves behind. Never returns."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        order = msgspec.json.decode(_received(answering), type=LegOrder)
        answering.sendall(msgspec.json.encode(_kept(order, answering, agent, troupe)))
        answering.close()
        code = 0
    finally:
        os._exit(code)


def _received(answering: socket.socket) -> bytes:
    """The order: a line."""
    data = b""
    while not data.endswith(b"\n"):
        piece = answering.recv(ORDER_BYTES)
        if not piece:
            raise EOFError
        data += piece
    return data


def _kept(order: LegOrder, answering: socket.socket, agent: Agent, troupe: Troupe) -> LegReport:
    home = Home(Path(order.work, ".clew"))
    end = Path(order.folder, "end")
    end.unlink(missing_ok=True)
    with home.processes.adopting():
        pid = os.fork()
        if pid == 0:
            _be(order, answering, agent, troupe)
        status, late = _waited(pid, answering, order.patience_s)
        left = _left(home, order.run_id)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    told = msgspec.json.decode(end.read_bytes(), type=LegEnd) if end.exists() else None
    crashed = ""
    if not killed and told is None:
        crashed = f"its process ended with {os.waitstatus_to_exitcode(status)}{_last_words(order)}"
    return LegReport(killed, late, crashed, left, told)


def _last_words(order: LegOrder) -> str:
    """The last line that a leg printed."""
    lines = Path(order.folder, "output").read_bytes()[-4096:].decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return f": {said[-1]}" if said else ""


def _be(order: LegOrder, answering: socket.socket, agent: Agent, troupe: Troupe) -> None:
    """The leg itself. Never returns: what was written down is all that is left of it."""
    try:
        answering.close()
        live_leg(order, agent, troupe)
    except BaseException:  # noqa: BLE001  # whatever it raises: its keeper says that it had no last words
        sys.excepthook(*sys.exc_info())
        os._exit(70)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _waited(pid: int, answering: socket.socket, patience_s: float) -> tuple[int, bool]:
    """Its status, and whether it was ended because it took too long; or nobody waits for it any more."""
    held = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([held, answering.fileno()], [], [], patience_s)
        if held not in ready:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    finally:
        os.close(held)
    return os.waitpid(pid, 0)[1], not ready


def _left(home: Home, run_id: str) -> dict[str, str]:
    """Which processes of the leg live on after it, in words; they are ended."""
    pause, looks = threading.Event(), int(LANDING_S / LOOK_S)
    left = dict(home.processes.living(run_id))
    while left and looks:
        pause.wait(LOOK_S)
        left, looks = dict(home.processes.living(run_id)), looks - 1
    if not left:
        return {}
    home.processes.end(run_id, [])
    return left
