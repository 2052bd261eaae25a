"""How a run uses a session: it is opened with the leg, what is said goes there once, the journal keeps watermarks."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from clew.core.jsonable import to_json
from clew.core.needs import Closing
from clew.core.session.projecting import project
from clew.core.session.values import Projection
from clew.core.state import RunState
from clew.errors import NotFound, Refused, Stop, Storage, UsageError
from clew.runtime.clock import Clock
from clew.runtime.gate import Gate
from clew.runtime.place import here
from clew.runtime.session import CoreMindSession, open_session
from clew.stores.base import SessionStore

FIRST_TURN = "turn-0"

T = TypeVar("T")


class Talk:
    """The session of one leg. What is said before the first turn belongs to `turn-0`.

    A replay says the same things in the same places, and hears at each place what was heard there before.
    """

    def __init__(self, session: CoreMindSession, root: str | None) -> None:
        self.session = session
        self.turn = FIRST_TURN
        self._last = root
        self._positions: defaultdict[str, int] = defaultdict(int)

    def saying(self, gate: Gate, said: Mapping[str, Any]) -> Callable[[], str]:
        """Take this place of the run for a message; what is given back says it, blocking, and tells its id.

        Raises:
            Stop: nothing is to be done any more, or it could not be kept: the run pauses (`session_failed`).
            UsageError: `value_not_json`.
            Refused: `session_entry_conflict` when something else was said at this place before; `append_too_large`.
        """
        gate.check_open()
        run_id, turn = gate.journal.state.run_id, self.turn
        position = self._positions[turn]
        plain = gate.redactor.answer(to_json(dict(said), at="message"))
        self._positions[turn] += 1

        def say() -> str:
            try:
                self._last = self.session.append_of(run_id, turn, position, plain)
            except Storage as fault:
                # The journal is sound, so it says why the run stops; the agent must not go on as if it had been said.
                gate.close(Closing("session_failed", fault.message))
                raise Stop(f"the session can no longer be written: {fault.message}") from fault
            return self._last

        return say

    def heard(self) -> Projection:
        """What a model may be sent at this place: what was said before the run, and in it so far. Blocking."""
        return project(self.session.view_at(self._last).messages)

    def close(self) -> None:
        """Let the session go."""
        self.session.close()


def talk_of(gate: Gate) -> Talk:
    """The session of this leg's run.

    Raises:
        UsageError: `run_without_session`. Refused: `call_outside_of_step`.
    """
    here(gate.journal.state.run_id)
    talk: Talk | None = gate.talk
    if talk is None:
        raise UsageError(
            f"run {gate.journal.state.run_id!r} has no session",
            code="run_without_session",
            next="Begin one with home.run(agent, input, session='…') or `clew run … --session ID`; none comes later.",
            run=gate.journal.state.run_id,
        )
    return talk


def say_now(gate: Gate, say: Callable[[], str]) -> str:
    """Say it in this thread. What is refused is the agent's to hear: the journal has not failed for it."""
    with gate.flight():
        try:
            return say()
        except Refused as fault:
            refused = fault
    raise refused


class Beginning:
    """A session that is held for a run which is about to be born, or goes on."""

    def __init__(self, session: CoreMindSession | None, root: str | None = None) -> None:
        self._session = session
        self._root = root

    def start(self) -> dict[str, Any]:
        """The members of a `start` record that say where the run began in its session; none without one."""
        if self._session is None:
            return {}
        return {
            "sessionId": self._session.id,
            "sessionSeqStart": self._session.watermark,
            "sessionLeaf": self._session.leaf,
            "sessionCreatedMs": self._session.created_ms,
        }

    def resume(self) -> dict[str, Any]:
        """The members of a `resume` record."""
        members = self.start()
        return {name: each for name, each in members.items() if name in ("sessionId", "sessionSeqStart")}

    def hand_to(self, gate: Gate) -> None:
        """From now on it is the leg's."""
        if self._session is not None:
            gate.talk = Talk(self._session, self._root)
            gate.journal.beside = self._session.close

    def let_go(self) -> None:
        """There is no leg for it."""
        if self._session is not None:
            self._session.close()


NO_SESSION = Beginning(None)


def session_for(sessions: SessionStore | None, clock: Clock, session_id: str | None, cwd: Path) -> Beginning:
    """Hold the session of a new run; begin it if it is not there.

    Raises:
        as `open_session`; UsageError: `no_sessions` where the home keeps none.
    """
    if session_id is None:
        return NO_SESSION
    session = open_session(required(sessions), clock, session_id, cwd=cwd)
    return Beginning(session, session.leaf)


def session_again(sessions: SessionStore | None, clock: Clock, state: RunState, cwd: Path) -> Beginning:
    """Hold the session of a run that goes on; it is never begun anew.

    Raises:
        Refused: `session_restore_failed` when it is gone, is another one, or does not reach as far as the run says.
        Held, Corrupt.
    """
    session_id = state.start.get("sessionId")
    if type(session_id) is not str or not state.own:
        return NO_SESSION
    try:
        session = open_session(required(sessions), clock, session_id, cwd=cwd, create=False)
    except NotFound as gone:
        raise _lost(state.run_id, session_id, "it is not there") from gone
    why = _other(session, state)
    if why:
        session.close()
        raise _lost(state.run_id, session_id, why)
    return Beginning(session, state.start.get("sessionLeaf"))


def _other(session: CoreMindSession, state: RunState) -> str:
    """Why this is not the session that the run was in, or one of before; empty when it is."""
    begun, leaf = state.start.get("sessionCreatedMs"), state.start.get("sessionLeaf")
    if type(begun) is int and begun != session.created_ms:
        return "another one of its name was begun meanwhile"
    reached = max((leg.watermark for leg in state.legs), default=0)
    if session.watermark < reached:
        return f"it has {session.watermark} lines, and a leg of the run began behind {reached}"
    if type(leaf) is str and not session.has(leaf):
        return f"the entry {leaf!r} that the run began behind is not in it"
    return ""


def required(sessions: SessionStore | None) -> SessionStore:
    """The sessions of a home.

    Raises:
        UsageError: `no_sessions`.
    """
    if sessions is None:
        raise UsageError(
            "this home keeps no sessions",
            code="no_sessions",
            next="Give it a session store: clew.Home(…, store=…, sessions=…).",
        )
    return sessions


def _lost(run_id: str, session_id: str, why: str) -> Refused:
    return Refused(
        f"session {session_id!r} of run {run_id!r} cannot be restored: {why}",
        code="session_restore_failed",
        next="Bring the session back from a copy, then resume the run; nothing was changed.",
        run=run_id,
        session=session_id,
        why=why,
    )


def holding(begin: Beginning, deed: Callable[[], T]) -> T:
    """Do what opens a leg; where that fails, the session is let go."""
    try:
        return deed()
    except BaseException:
        begin.let_go()
        raise
