"""One life of an agent, leg by leg to its honest end, and whoever settles what it leaves open. Judges nothing."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.certify import ledger
from clew.certify.leg import SAID_BY, TrialClock
from clew.certify.orders import Entry, LegEnd, LegOrder, LegReport
from clew.certify.points import Point
from clew.certify.server import ORDER_BYTES, Facts
from clew.certify.surroundings import renew
from clew.core.records import Record
from clew.core.review import DidNotHappen, Happened
from clew.core.state import RunState
from clew.errors import ClewError, NotFound, Refused, UsageError
from clew.runtime.home import Home

MAX_LEGS: Final = 12
COMEBACKS: Final = 3
COMPLETED: Final = "completed"
NO_END: Final = "no end"


class Server:
    """A fork server as its clients see it. Lives until `close`, or as long as this process."""

    def __init__(self, command: Sequence[str], work: Path, hash_seed: int) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Nor may an agent that opens a home by itself find its user's.
        kept = {name: value for name, value in os.environ.items() if name != "CLEW_HOME"}
        environment = {**kept, "PYTHONHASHSEED": str(hash_seed), "PYTHONDONTWRITEBYTECODE": "1"}
        self._legs: set[socket.socket] = set()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", *command, str(theirs.fileno())],
                cwd=work, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
            )  # fmt: skip

    def facts(self) -> Facts:
        """What it has imported; waits for that.

        Raises:
            UsageError: as the import ended, `agent_not_loadable` when its process is gone.
        """
        said = self._control.recv(ORDER_BYTES)
        facts = msgspec.json.decode(said, type=Facts) if said else Facts(fault=_gone(self._process.wait()))
        if facts.fault is not None:
            code, message, following = facts.fault
            raise _import_failed(code, message, following, refused=facts.refused)
        return facts

    def leg(self, order: LegOrder) -> LegReport:
        """Let one leg be lived; blocks until it is over."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                socket.send_fds(self._control, [b"!"], [theirs.fileno()])
            self._legs.add(ours)
            try:
                ours.sendall(msgspec.json.encode(order) + b"\n")
                said = b"".join(iter(lambda: ours.recv(1 << 16), b""))
            finally:
                self._legs.discard(ours)
        return msgspec.json.decode(said, type=LegReport) if said else LegReport(crashed="its keeper ended")

    def close(self) -> None:
        """No more legs: those that are still lived end now, for nobody waits for them."""
        for answering in tuple(self._legs):
            with contextlib.suppress(OSError):
                answering.shutdown(socket.SHUT_RDWR)
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()


def _gone(status: int) -> tuple[str, str, str]:
    message = f"the process that imports the agent ended by itself with {status}"
    return "agent_not_loadable", message, "Import the file by itself and see what it does."


def _import_failed(code: str, message: str, following: str, *, refused: bool) -> ClewError:
    """The error of the server's process, told on."""
    return (Refused if refused else UsageError)(message, code=code, next=following)


@dataclass(frozen=True)
class Terms:
    """How each life is lived; `template` is the workspace in the beginning."""

    template: Path
    seed: str
    prompt: Any = None
    answers: str = ""
    may_write: tuple[str, ...] = ()
    session: str = ""


@dataclass
class Lived:
    """A life that is over.

    Attributes:
        outcome: `completed`, `failed: …`, `paused: …`, `refused: …` with a code, `died`, `too late` or `no end`.
        entries: Its ledger.
        left: Processes that lived on after a leg, in words.
        unanswered: What was asked that nobody answers, if that ended it.
        calls: What the journal knows of the calls, in the end.
    """

    point: Point
    outcome: str = ""
    detail: str = ""
    output: Any = None
    legs: int = 0
    run_id: str = ""
    work: str = ""
    entries: list[Entry] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    state: RunState | None = None
    unanswered: Entry | None = None

    @property
    def struck(self) -> int:
        """So many deaths it died."""
        return sum(entry.did == "struck" for entry in self.entries)


class Stage:
    """One folder in which one life after another is lived, and its servers: two that order sets differently.

    Lives as long as the trial; one life at a time.
    """

    def __init__(self, folder: Path, work: Path, servers: Sequence[Server]) -> None:
        self.folder = folder
        self.work = work
        self._servers = servers

    def live(self, terms: Terms, point: Point, run_id: str, *, live: bool = False, patience_s: float = 60.0) -> Lived:
        """See one life through."""
        renew(terms.template, self.work)
        for name in ("ledger", "output", "end"):
            (self.folder / name).unlink(missing_ok=True)
        renew(self._empty(), self.folder / "tmp")
        return _Life(self, terms, Lived(point, run_id=run_id, work=str(self.work)), live, patience_s).see_it_through()

    def _empty(self) -> Path:
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        return empty

    def close(self) -> None:
        """Nothing is lived here any more."""
        for server in self._servers:
            server.close()

    def leg(self, order: LegOrder) -> LegReport:
        """One leg, each in a process that orders its sets otherwise than the one before."""
        return self._servers[(order.number - 1) % len(self._servers)].leg(order)


class _Life:
    """The living of it. Lives as long as `Stage.live`."""

    def __init__(self, stage: Stage, terms: Terms, lived: Lived, live: bool, patience_s: float) -> None:
        self._stage = stage
        self._terms = terms
        self._lived = lived
        self._live = live
        self._patience_s = patience_s
        self._comebacks = 0
        self._ahead_ms = 0

    def see_it_through(self) -> Lived:
        lived = self._lived
        while not lived.outcome:
            lived.legs += 1
            report = self._stage.leg(self._order())
            lived.entries = ledger.read(self._stage.folder / "ledger")
            self._ahead_ms += sum(entry.milliseconds for entry in lived.entries if entry.leg == lived.legs)
            lived.left += [words for words in report.left.values() if words not in lived.left]
            try:
                self._consider(report)
            except ClewError as fault:
                lived.outcome, lived.detail = f"refused: {fault.code}", fault.message
            if not lived.outcome and lived.legs >= MAX_LEGS:
                lived.outcome = NO_END
        self._look_back()
        return lived

    def _order(self) -> LegOrder:
        lived, terms, stage = self._lived, self._terms, self._stage
        return LegOrder(
            folder=str(stage.folder), work=str(stage.work), run_id=lived.run_id, number=lived.legs,
            deed="resume" if self._born() else "run", dice=f"{terms.seed}:{lived.point.name}:{lived.legs}",
            prompt=terms.prompt, ahead_ms=self._ahead_ms, answers=terms.answers, fails=lived.point.fails,
            kill=lived.point.next_kill(lived.struck), **since_death(lived.entries), live=self._live,
            may_write=terms.may_write, session=terms.session, patience_s=self._patience_s,
        )  # fmt: skip

    def _born(self) -> bool:
        return self._state() is not None

    def _home(self) -> Home:
        dice = f"{self._terms.seed}:{self._lived.point.name}:{self._lived.legs}:person"
        clock = TrialClock(self._ahead_ms, dice, lambda _: None)
        return Home(self._stage.work / ".clew", takeover="operator", workspace=self._stage.work, clock=clock)

    def _state(self) -> RunState | None:
        try:
            return self._home().reader.see(self._lived.run_id).state
        except NotFound:
            return None

    def _consider(self, report: LegReport) -> None:
        """What the end of a leg means: the end of the life, or what is to be done before the next one."""
        lived = self._lived
        lived.unanswered = next((entry for entry in lived.entries if entry.did == "unanswered"), None)
        if lived.unanswered is not None:
            lived.outcome = "unanswered"
        elif report.late:
            lived.outcome = "too late"
        elif report.crashed or (report.killed and not self._was_struck()):
            lived.outcome, lived.detail = "died", report.crashed or "its process was killed by somebody else"
        elif report.end is not None and report.end.fault is not None:
            lived.outcome, lived.detail = f"refused: {report.end.fault[0]}", report.end.fault[1]
        elif not self._over():
            self._help(report.end)

    def _was_struck(self) -> bool:
        return any(entry.did == "struck" and entry.leg == self._lived.legs for entry in self._lived.entries)

    def _over(self) -> bool:
        """Has the run come to its end, or a write been refused, after which it would only be told the same again?"""
        state, lived = self._state(), self._lived
        if state is None:
            return False
        if state.finish is not None:
            reason = str((state.finish.get("outcome") or {}).get("finishReason"))
            lived.outcome = COMPLETED if state.state == COMPLETED else f"failed: {reason}"
        return bool(lived.outcome)

    def _help(self, end: LegEnd | None) -> None:
        """Do what a person would: come back later, or say what really happened; a dead run is only resumed."""
        lived = self._lived
        if end is None or self._came_back(end):
            return
        if self._hindered() or not self._settled():
            lived.outcome, lived.detail = f"paused: {end.reason}", end.message

    def _hindered(self) -> bool:
        return any(entry.did == "found" and entry.what.endswith("refused") for entry in self._lived.entries)

    def _came_back(self, end: LegEnd) -> bool:
        if end.retry_in_s is None or self._comebacks == COMEBACKS:
            return False
        self._comebacks += 1
        self._ahead_ms += round(end.retry_in_s * 1000) + 1
        return True

    def _settled(self) -> bool:
        """Say of each open effect what the ledger says, and yes to each question, of children too; was there one?"""
        answers = {entry.key: entry.answer for entry in self._lived.entries if entry.did == "happened"}
        said = False
        for run_id in self._home().reader.store.ids():
            home = self._home()
            for call in home.reader.see(run_id).state.unsettled():
                verdict = Happened(answers[call.key]) if call.key in answers else DidNotHappen()
                home.settle(run_id, verdict, call=call.key, by=SAID_BY, reason="as the ledger of the trial says")
                said = True
            for asked in home.reader.row(run_id).get("approvals", ()):
                home.approve(run_id, call=asked["approvalId"], by=SAID_BY, reason="a trial lets it start")
                said = True
        return said

    def _look_back(self) -> None:
        lived = self._lived
        try:
            lived.state = self._state()
            if lived.state is not None:
                lived.records = list(self._home().reader.records(lived.run_id))
        except ClewError as fault:
            lived.outcome, lived.detail = f"refused: {fault.code}", fault.message
        if lived.outcome == COMPLETED and lived.state is not None:
            lived.output = (lived.state.agent_end or {}).get("output")


def since_death(entries: Sequence[Entry]) -> dict[str, int]:
    """How many appends and bodies there were since the last death, or in all if there was none."""
    did = [entry.did for entry in entries]
    since = did[len(did) - did[::-1].index("struck") :] if "struck" in did else did
    return {"appends": since.count("appended"), "bodies": since.count("began") + since.count("refused")}
