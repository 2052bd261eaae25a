"""Acts of a person on a run that waits: settle an effect, abort, unlock. Under the lock, or by the inbox of a writer."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from clew.core.calls import CallState
from clew.core.canon import fingerprint
from clew.core.compose import Move, Saying
from clew.core.effect import Append, Save, review_event
from clew.core.jsonable import to_json
from clew.core.legs import Leg
from clew.core.outcome import effect_row
from clew.core.review import GiveUp, Happened, Settlement, outcome_of
from clew.core.state import RunState
from clew.errors import Held, Refused, Usage
from clew.runtime.control import settling
from clew.runtime.ending import row
from clew.runtime.gate import facts_of
from clew.runtime.journal import Journal
from clew.runtime.opening import HomeParts
from clew.runtime.recovery import Reopened, Unlock, close_quietly, end_leg, fail_sayings, unfinished_business
from clew.stores.base import Command, CommandAnswer

ANSWER_S = 5.0


class Said(msgspec.Struct, frozen=True):
    """Who settles, why, and on what evidence."""

    by: str
    reason: str
    evidence: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.by.strip() or not self.reason.strip():
            raise Usage(
                "a settlement names nobody or no reason",
                code="review_incomplete",
                next="Say who settles it and why: --by NAME --reason TEXT.",
            )

    def recorded(self) -> list[dict[str, Any]]:
        """The member `evidence` of a review."""
        return [{"kind": "text", "text": text} for text in self.evidence]


def pick_call(state: RunState, name: str | None) -> CallState:
    """The call that is meant: by step id, call id or key; without a name, the only one that is open.

    Raises:
        Refused: `nothing_to_settle`, `review_conflict`.
        Usage: `which_effect` when several are open.
    """
    waiting = state.unsettled()
    if name is not None:
        call = state.find_call(name)
        if call is None:
            raise _nothing(state, f"there is no call {name!r}")
        return call
    if not waiting:
        raise _nothing(state, "no effect is open")
    if len(waiting) > 1:
        names = ", ".join(f"{call.step_id} ({call.tool})" for call in waiting)
        raise Usage(
            f"run {state.run_id!r} has {len(waiting)} open effects: {names}",
            code="which_effect",
            next="Name one of them behind the run.",
            effects=[effect_row(call) for call in waiting],
        )
    return waiting[0]


def _nothing(state: RunState, why: str) -> Refused:
    return Refused(
        f"run {state.run_id!r}: {why}",
        code="nothing_to_settle",
        next=f"See its effects with `clew show {state.run_id} --effects`.",
        run=state.run_id,
    )


def settle_run(place: HomeParts, run_id: str, name: str | None, verdict: Settlement, said: Said) -> dict[str, Any]:
    """Record a person's settlement; by the inbox when a writer lives.

    Returns:
        The effect's row as it stands now.

    Raises:
        Refused: `nothing_to_settle`, `review_conflict`; Held: the owner is not proven gone.
    """
    verdict = _as_json(verdict)
    try:
        writer = place.store.open(run_id, wait_s=0.5)
    except Held:
        return _by_inbox(place, run_id, name, verdict, said)
    try:
        opened = Reopened(place.store, place.clock, writer, "settle")
        call = pick_call(opened.state, name)
        _check_open(opened.state, call)
        opened.take_over(place.takeover)
        journal = opened.begin()
    except BaseException:
        writer.close()
        raise
    try:
        _record(place, journal, call, verdict, said)
        _close(journal, given_up=isinstance(verdict, GiveUp))
    finally:
        end_leg(journal)
    settled = journal.state.find_call(call.step_id)
    assert settled is not None
    return effect_row(settled)


def _as_json(verdict: Settlement) -> Settlement:
    if isinstance(verdict, Happened) and verdict.result is not msgspec.UNSET:
        return Happened(to_json(verdict.result), verdict.reason)
    return verdict


def _check_open(state: RunState, call: CallState) -> None:
    settled = call.settled_by
    if settled is not None:
        raise Refused(
            f"attempt {call.attempt} of {call.key!r} is settled already: {settled.outcome} by {settled.by!r} ({settled.reason})",
            code="review_conflict",
            next="A settlement stands; a later attempt gets its own.",
            run=state.run_id,
        )
    lost = call.answer is not None and call.answer.blob is not None
    if not call.unsettled and not lost and call.persistence != "withheld":
        raise _nothing(state, f"{call.step_id!r} is not open (it is {call.status or 'not started'})")


def _record(place: HomeParts, journal: Journal, call: CallState, verdict: Settlement, said: Said) -> None:
    """The review, with its result; after the run's end the result stands in the review itself."""
    state = journal.state
    if state.finish is not None:
        journal.append([_after_the_end(state, call, verdict, said)])
        return
    walk = settling(state.run_id, call, verdict, by=said.by, reason=said.reason, evidence=said.recorded())
    reply: Any = None
    while True:
        try:
            need = walk.send(reply)
        except StopIteration:
            return
        if isinstance(need, Append):
            journal.append(need.events)
            reply = None
        else:
            assert isinstance(need, Save)
            reply = place.blobs.put(need.data)


def _after_the_end(state: RunState, call: CallState, verdict: Settlement, said: Said) -> dict[str, Any]:
    assert call.capability is not None
    facts = facts_of(state.run_id, call, call.capability)
    reasoned = msgspec.structs.replace(verdict, reason=said.reason)
    event = review_event(facts, call.attempt, reasoned, source="operator", by=said.by, evidence=said.recorded())
    if isinstance(verdict, Happened) and verdict.result is not msgspec.UNSET:
        event = {**event, "resultRecorded": True, "result": verdict.result}
    return event


def _close(journal: Journal, *, given_up: bool) -> None:
    if given_up and not journal.state.ended:
        journal.append(fail_sayings("effect_given_up"))
    else:
        close_quietly(journal)
    journal.publish_head(row(journal.state))


def _by_inbox(place: HomeParts, run_id: str, name: str | None, verdict: Settlement, said: Said) -> dict[str, Any]:
    arguments: dict[str, Any] = {"call": name or "", "outcome": outcome_of(verdict), "evidence": said.recorded()}
    if isinstance(verdict, Happened) and verdict.result is not msgspec.UNSET:
        arguments["result"] = verdict.result
    return send(place, run_id, "settle", said, arguments)


def send(place: HomeParts, run_id: str, kind: str, said: Said, arguments: dict[str, Any]) -> dict[str, Any]:
    """Put a command into the inbox of a living writer and wait a little for its answer.

    Raises:
        Refused: `control_rejected` with the writer's reason.
        Held: `run_state_locked` when the writer did not answer in time; the command stays and is answered later.
    """
    stamp = {"runId": run_id, "type": kind, "by": said.by, "at": place.clock.now_ms(), "nonce": place.clock.chance(8).hex()}
    command = Command(1, f"{kind}-{fingerprint(stamp)[:16]}", run_id, kind, said.by, said.reason, arguments)
    place.store.post(command)
    until = place.clock.monotonic_s() + ANSWER_S
    while place.clock.monotonic_s() < until:
        answer = place.store.answered(run_id, command.control_id)
        if answer is not None:
            return _heard(command, answer)
        time.sleep(0.05)
    raise Held(
        f"the writer of run {run_id!r} has not answered yet; command {command.control_id!r} waits in its inbox",
        code="run_state_locked",
        next=f"Look again with `clew show {run_id}`; the command is taken at the run's next safe point.",
        run=run_id,
        controlId=command.control_id,
    )


def _heard(command: Command, answer: CommandAnswer) -> dict[str, Any]:
    if answer.status in ("rejected", "conflict"):
        raise Refused(
            f"the writer of run {command.run_id!r} rejected {command.type}: {answer.reason}",
            code="control_rejected",
            next=f"Look at the run with `clew show {command.run_id}` and decide anew.",
            run=command.run_id,
        )
    return {"runId": command.run_id, "command": command.type, "status": answer.status}


def abort_run(place: HomeParts, run_id: str, said: Said) -> dict[str, Any]:
    """End a run for good: by the inbox when a writer lives, under the lock else. Started effects stay listed.

    Raises:
        Refused: `run_already_finished`. Held: the owner is not proven gone.
    """
    try:
        writer = place.store.open(run_id, wait_s=0.5)
    except Held:
        return send(place, run_id, "abort", said, {})
    try:
        opened = Reopened(place.store, place.clock, writer, "control")
        if opened.state.finish is not None:
            raise _ended(opened.state)
        opened.take_over(place.takeover)
        begin: list[Saying] = [Move("REQUEST_ABORT", f"by {said.by}: {said.reason}"), *fail_sayings("aborted")]
        journal = opened.begin(then=unfinished_business(opened.state) or begin)
    except BaseException:
        writer.close()
        raise
    try:
        journal.publish_head(row(journal.state))
    finally:
        end_leg(journal)
    return {"runId": run_id, "command": "abort", "status": "applied", "effects": _started(journal.state)}


def _started(state: RunState) -> list[dict[str, Any]]:
    return [effect_row(call) for call in state.calls.values() if call.attempt]


def pause_run(place: HomeParts, run_id: str, said: Said) -> dict[str, Any]:
    """Ask a living run to pause at its next safe point.

    Raises:
        Refused: `run_not_living` when nobody runs it.
    """
    try:
        writer = place.store.open(run_id, wait_s=0.0)
    except Held:
        return send(place, run_id, "pause", said, {})
    writer.close()
    raise Refused(
        f"run {run_id!r} is not running; there is nothing to pause",
        code="run_not_living",
        next=f"Look at it with `clew show {run_id}`.",
        run=run_id,
    )


def unlock_run(place: HomeParts, run_id: str, unlock: Unlock) -> dict[str, Any]:
    """Close the leg of an owner that cannot be proven gone, on a person's word, with the evidence journaled.

    Raises:
        Refused: `nothing_to_unlock`; `stale_nonce` when the nonce is not the open leg's. Held: a writer lives.
    """
    Said(unlock.by, unlock.reason)
    writer = place.store.open(run_id)
    try:
        opened = Reopened(place.store, place.clock, writer, "control")
        leg = _open_leg(opened.state, unlock)
        opened.take_over("operator", unlock)
        journal = opened.begin()
    except BaseException:
        writer.close()
        raise
    try:
        close_quietly(journal)
        journal.publish_head(row(journal.state))
    finally:
        end_leg(journal)
    return {"runId": run_id, "leg": leg.number, "proofs": [msgspec.to_builtins(proof) for proof in opened.proofs]}


def _open_leg(state: RunState, unlock: Unlock) -> Leg:
    leg = state.unclosed_leg
    if leg is None:
        raise Refused(
            f"run {state.run_id!r} has no open leg",
            code="nothing_to_unlock",
            next=f"Go on with `clew resume {state.run_id}`.",
            run=state.run_id,
        )
    if leg.nonce != unlock.nonce:
        raise Refused(
            f"the open leg of run {state.run_id!r} has nonce {leg.nonce!r}, not {unlock.nonce!r}",
            code="stale_nonce",
            next="Look at the owner again before you decide: it is another one.",
            run=state.run_id,
            nonce=leg.nonce,
        )
    return leg


def _ended(state: RunState) -> Refused:
    return Refused(
        f"run {state.run_id!r} is {state.state}; it cannot be aborted",
        code="run_already_finished",
        next=f"Look at it with `clew show {state.run_id}`.",
        run=state.run_id,
    )
