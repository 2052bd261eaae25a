"""A run that is to be there whoever starts it: what to do when somebody else was faster. Starts nothing itself."""

from typing import Any

from clew.core.canon import fingerprint
from clew.core.ids import check_id
from clew.core.jsonable import to_json
from clew.core.resume import check_ours
from clew.core.snapshot import RunResult
from clew.core.state import RunState
from clew.errors import NotFound, Refused
from clew.runtime.reader import Reader


def existing(reader: Reader, run_id: str, prompt: Any) -> RunState | None:
    """The run of this id, if there is one already.

    Raises:
        Refused: `resume_input_mismatch` when it was started with another input; `foreign_run`.
    """
    try:
        state = reader.see(check_id(run_id)).state
    except NotFound:
        return None
    check_ours(state)
    if fingerprint(state.input) != fingerprint(to_json(prompt, at="input")):
        raise Refused(
            f"run {run_id!r} was started with another input",
            code="resume_input_mismatch",
            next="Give the recorded input, or choose another run id.",
            run=run_id,
        )
    return state


def check_session(state: RunState, session_id: str | None) -> None:
    """Return when a run is in the session that is asked for, or none is.

    Raises:
        Refused: `resume_input_mismatch`: what it goes on with is a part of what it was asked.
    """
    own = state.start.get("sessionId")
    if session_id is not None and session_id != own:
        where = "no session" if own is None else f"session {own!r}"
        raise Refused(
            f"run {state.run_id!r} is in {where}, not in {session_id!r}",
            code="resume_input_mismatch",
            next="Name the session that it was started in, or choose another run id.",
            run=state.run_id,
            session=session_id,
        )


def ended_meanwhile(reader: Reader, fault: Refused, run_id: str) -> RunResult:
    """Somebody else saw it to its end between the look and the lock: that is what was wanted; else the refusal."""
    if fault.code != "run_already_finished":
        raise fault
    return reader.result(reader.see(run_id).state)


def born_meanwhile(reader: Reader, fault: Refused, run_id: str, prompt: Any) -> RunState:
    """Somebody else started this very run between the look and the start: it is continued, or held."""
    state = existing(reader, run_id, prompt) if fault.code == "run_id_conflict" else None
    if state is None:
        raise fault
    return state
