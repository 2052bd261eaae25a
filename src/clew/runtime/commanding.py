"""Commands to a run from another process: by the inbox when a writer lives, under the lock else. Pause and abort."""

from typing import Any

from clew.core.canon import fingerprint
from clew.core.compose import Move, Saying
from clew.core.folding import fold, take
from clew.core.outcome import effect_row
from clew.core.redact import Redactor
from clew.core.resume import check_ours
from clew.core.state import RunState
from clew.errors import Held, Refused
from clew.runtime.control import reject_rest
from clew.runtime.ending import publish
from clew.runtime.living import not_over
from clew.runtime.opening import HomeParts
from clew.runtime.orphans import end_children
from clew.runtime.recovery import Reopened, end_leg, fail_sayings, unfinished_business
from clew.runtime.reviewing import Said
from clew.stores.base import Command, CommandAnswer, RunWriter

LOOK_S = 0.05
LOOKS = 100
# A lock that is held is told with its holder, for which the whole journal is read: not at every look.
LOOKS_AT_LOCK = 20
LOCK_S = 0.5


def writer_of(place: HomeParts, run_id: str) -> RunWriter | None:
    """The lock of a run, or None when a writer lives. `NotFound` (`unknown_run`)."""
    try:
        return place.store.open(run_id, wait_s=LOCK_S)
    except Held:
        return None


def send(place: HomeParts, run_id: str, kind: str, said: Said, arguments: dict[str, Any]) -> str | None:
    """Put a command into the inbox of a living writer and wait a little for its answer.

    Returns:
        What became of it: `applied`, `accepted` or `duplicate`. None: the writer has let the run go without an
        answer; the command is withdrawn, and what it asked for can be done under the lock.

    Raises:
        Refused: `control_rejected` with the writer's reason.
        Held: `run_state_locked` when the writer did not answer in time; the command stays and is answered later.
    """
    stamp = {"runId": run_id, "type": kind, "by": said.by, "at": place.clock.now_ms()}
    name = fingerprint({**stamp, "nonce": place.clock.chance(8).hex()})[:16]
    command = Command(1, f"{kind}-{name}", run_id, kind, said.by, said.reason, arguments)
    place.store.post(command)
    for look in range(LOOKS):
        answer = place.store.answered(run_id, command.control_id)
        if answer is not None:
            return _heard(command, answer)
        if look % LOOKS_AT_LOCK == 0 and _withdrawn(place, command):
            return None
        place.clock.sleep(LOOK_S, lambda: False)
    raise Held(
        f"the writer of run {run_id!r} has not answered yet; command {command.control_id!r} waits in its inbox",
        code="run_state_locked",
        next=f"Look again with `clew show {run_id}`; the command is taken at the run's next safe point.",
        run=run_id,
        controlId=command.control_id,
    )


def _withdrawn(place: HomeParts, command: Command) -> bool:
    """Take a command back if its writer is gone and did not answer; under the lock, so that nobody else takes it."""
    try:
        writer = place.store.open(command.run_id, wait_s=0.0)
    except Held:
        return False
    try:
        if place.store.answered(command.run_id, command.control_id) is not None:
            return False
        why = "withdrawn: nobody was running the run any more"
        place.store.answer(command.run_id, CommandAnswer(command.control_id, "rejected", why))
        return True
    finally:
        writer.close()


def _heard(command: Command, answer: CommandAnswer) -> str:
    if answer.status in ("rejected", "conflict"):
        raise Refused(
            f"the writer of run {command.run_id!r} rejected {command.type}: {answer.reason}",
            code="control_rejected",
            next=f"Look at the run with `clew show {command.run_id}` and decide anew.",
            run=command.run_id,
        )
    return answer.status


def abort_run(place: HomeParts, run_id: str, said: Said) -> dict[str, Any]:
    """End a run for good: by the inbox when a writer lives, under the lock else. Started effects stay listed.

    Raises:
        Refused: `run_already_finished`, `foreign_run`. Held: the owner is not proven gone.
    """
    _require_ours(place, run_id)
    while True:
        writer = writer_of(place, run_id)
        if writer is not None:
            return _abort_under_lock(place, writer, said)
        status = send(place, run_id, "abort", said, {})
        if status is not None:
            return {"runId": run_id, "command": "abort", "status": status}


def _abort_under_lock(place: HomeParts, writer: RunWriter, said: Said) -> dict[str, Any]:
    run_id = writer.run_id
    try:
        opened = Reopened(place.store, place.clock, writer, "control")
        if opened.state.finish is not None:
            raise _ended(opened.state)
        opened.take_over(place.takeover)
        alive = not_over(place.processes, opened.state.unsettled(), Redactor())
        alive |= end_children(opened.state, lambda child: abort_run(place, child, _for_parent(said, run_id)))
        begin: list[Saying] = [Move("REQUEST_ABORT", f"by {said.by}: {said.reason}"), *fail_sayings("aborted", alive)]
        journal = opened.begin(then=unfinished_business(opened.state, alive) or begin)
    except BaseException:
        writer.close()
        raise
    try:
        publish(journal)
        reject_rest(place.store, writer.run_id, "the run has ended")
    finally:
        end_leg(journal)
    if journal.state.operation is None or journal.state.operation.reason != "aborted":
        # Its end was cut off before anybody asked to abort it: that end stands.
        raise _ended(journal.state)
    effects = [effect_row(call) for call in journal.state.calls.values() if call.started_ms]
    return {"runId": writer.run_id, "command": "abort", "status": "applied", "effects": effects, "alive": alive}


def _for_parent(said: Said, run_id: str) -> Said:
    return Said(said.by, f"its parent {run_id} is aborted: {said.reason}")


def pause_run(place: HomeParts, run_id: str, said: Said) -> dict[str, Any]:
    """Ask a living run to pause at its next safe point.

    Raises:
        Refused: `run_not_living` when nobody runs it; `foreign_run`. Corrupt.
    """
    _require_ours(place, run_id)
    writer = writer_of(place, run_id)
    status = send(place, run_id, "pause", said, {}) if writer is None else None
    if writer is not None:
        try:
            fold(writer.read(), run_id)
        finally:
            writer.close()
    if status is not None:
        return {"runId": run_id, "command": "pause", "status": status}
    raise Refused(
        f"run {run_id!r} is not running; there is nothing to pause",
        code="run_not_living",
        next=f"Look at it with `clew show {run_id}`.",
        run=run_id,
    )


def _require_ours(place: HomeParts, run_id: str) -> None:
    """Whose a journal is, its first record says; another program's gets no command from here."""
    state = RunState(run_id)
    for record, position in place.store.read(run_id):
        take(state, record, position)
        if state.own:
            break
    check_ours(state)


def _ended(state: RunState) -> Refused:
    return Refused(
        f"run {state.run_id!r} is {state.state}; it cannot be aborted",
        code="run_already_finished",
        next=f"Look at it with `clew show {state.run_id}`.",
        run=state.run_id,
    )
