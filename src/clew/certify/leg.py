"""One leg of one life: this very process runs the agent on the scratch home, and dies where it was told to."""

import hashlib
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from clew.certify.answers import load
from clew.certify.guard import Guard
from clew.certify.ledger import Ledger, die, read
from clew.certify.orders import LegEnd, LegOrder
from clew.certify.standins import StandIns, Troupe
from clew.core.approvals import Approve
from clew.core.records import Batch
from clew.core.redact import Redactor
from clew.errors import ClewError
from clew.runtime.clock import SystemClock, roll_by
from clew.runtime.home import Home
from clew.runtime.run import Run, SyncRun
from clew.runtime.tools import Agent

SAID_BY = "clew certify"


class TrialClock(SystemClock):
    """The machine's clock, ahead of it by what this life has slept: waiting takes no time. Chance has a seed."""

    def __init__(self, ahead_ms: int, dice: str, slept: Callable[[int], None]) -> None:
        self._ahead_ms = ahead_ms
        self._dice = dice
        self._slept = slept
        self._drawn = itertools.count()

    def now_ms(self) -> int:
        """Wall time, milliseconds since 1970."""
        return super().now_ms() + self._ahead_ms

    def monotonic_s(self) -> float:
        """Seconds of the monotonic clock."""
        return super().monotonic_s() + self._ahead_ms / 1000

    def chance(self, count: int) -> bytes:
        """The next bytes of the seed; never the same ones twice."""
        return hashlib.shake_256(f"{self._dice}:{next(self._drawn)}".encode()).digest(count)

    def sleep(self, seconds: float, woken: Callable[[], bool]) -> bool:
        """Be so much later at once."""
        if not woken():
            self._pass(seconds)
        return woken()

    async def sleep_on_loop(self, seconds: float, woken: Callable[[], bool]) -> bool:
        """Be so much later at once."""
        return self.sleep(seconds, woken)

    def _pass(self, seconds: float) -> None:
        milliseconds = max(0, round(seconds * 1000))
        self._ahead_ms += milliseconds
        self._slept(milliseconds)


class Deadly:
    """Counts the appends of one leg, in all its journals, and is the end of it at one of them."""

    def __init__(self, order: LegOrder, ledger: Ledger) -> None:
        self._order = order
        self._ledger = ledger
        self._appends = itertools.count(order.appends + 1)

    def around(self, append: Callable[[], Any]) -> Any:
        """One append, with death on the one or the other side of it."""
        number, kill = next(self._appends), self._order.kill
        if kill is not None and (kill.moment, kill.number) == ("before", number):
            self.strike(kill.name)
        done = append()
        self._ledger.write("appended")
        if kill is not None and (kill.moment, kill.number) == ("after", number):
            self.strike(kill.name)
        return done

    def strike(self, name: str) -> None:
        """The end."""
        self._ledger.write("struck", what=name)
        die()


class DeadlyWriter:
    """A writer whose appends may be the end; otherwise the writer it wraps."""

    def __init__(self, inner: Any, deadly: Deadly) -> None:
        self._inner = inner
        self._deadly = deadly

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        """Append, or die before or behind it."""
        return int(self._deadly.around(lambda: self._inner.append(batch, starts_effect=starts_effect)))


class DeadlyStore:
    """A store whose writers may die."""

    def __init__(self, inner: Any, deadly: Deadly) -> None:
        self._inner = inner
        self._deadly = deadly

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create(self, *given: Any, **how: Any) -> DeadlyWriter:
        """A birth is an append too."""
        return DeadlyWriter(self._deadly.around(lambda: self._inner.create(*given, **how)), self._deadly)

    def open(self, *given: Any, **how: Any) -> DeadlyWriter:
        """As of the store it wraps."""
        return DeadlyWriter(self._inner.open(*given, **how), self._deadly)


def live_leg(order: LegOrder, agent: Agent, troupe: Troupe) -> None:
    """Run or resume in this process, which is a child made for it, and write down how it ended."""
    folder = Path(order.folder)
    ledger = Ledger(folder / "ledger", order.number)
    _settle_in(order, folder)
    own = [str(folder / name) for name in ("ledger", "output", "end", "tmp")]
    guard = Guard(ledger, order.work, [*own, str(Path(order.work, ".clew"))], order.may_write)
    happened = {entry.key: entry.answer for entry in read(folder / "ledger") if entry.did == "happened"}
    cast = StandIns(order, load(order.answers), ledger, guard, happened, Redactor(agent.secrets))
    home = _home(order, ledger)
    if not order.live:
        guard.install()
        _ask_nobody(cast)
    troupe.cast = cast
    (folder / "end").write_bytes(msgspec.json.encode(_ended(order, home, agent)))


def _settle_in(order: LegOrder, folder: Path) -> None:
    """As if this process had been started in the scratch workspace, by nobody at a terminal."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.chdir(order.work)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(old, new)
    sys.dont_write_bytecode = True
    roll_by(order.dice)


def _home(order: LegOrder, ledger: Ledger) -> Home:
    clock = TrialClock(order.ahead_ms, order.dice, lambda passed: ledger.write("slept", milliseconds=passed))
    home = Home(Path(order.work, ".clew"), takeover="operator", workspace=order.work, clock=clock)
    deadly: Any = DeadlyStore(home._parts.store, Deadly(order, ledger))
    home._parts = msgspec.structs.replace(home._parts, store=deadly)
    return home


def _ask_nobody(cast: StandIns) -> None:
    """Let no model be asked in this process."""
    turn, turn_sync = Run.turn, SyncRun.turn

    async def turned(run: Run, ask: Any, request: Any) -> Any:
        del ask
        return await turn(run, cast.ask, request)

    def turned_sync(run: SyncRun, ask: Any, request: Any) -> Any:
        del ask
        return turn_sync(run, cast.ask, request)

    setattr(Run, "turn", turned)  # noqa: B010  # a method is replaced, on purpose
    setattr(SyncRun, "turn", turned_sync)  # noqa: B010  # a method is replaced, on purpose


def _ended(order: LegOrder, home: Home, agent: Agent) -> LegEnd:
    how: dict[str, Any] = {"signals": False, "notice": lambda _: None, "approver": _yes}
    try:
        with home.processes.adopting():
            if order.deed == "run":
                session = order.session or None
                result = home.run_sync(agent, order.prompt, run_id=order.run_id, session=session, **how)
            else:
                result = home.resume_sync(order.run_id, agent, **how)
    except ClewError as fault:
        return LegEnd(fault=(fault.code, fault.message))
    message = str(home.reader.row(order.run_id).get("message", ""))
    return LegEnd(result.reason or "completed", message, result.retry_in_s)


def _yes(request: Any) -> Approve:
    """Nobody is asked in a trial, and every start is allowed."""
    return Approve(SAID_BY, f"a trial lets {request.tool} start")
