"""`clew settle`, `pause`, `steer`, `abort` and `unlock`: a person's acts on a run, recorded with who and why."""

from dataclasses import dataclass
from typing import Any, Final

from clew.cli.desk import Desk, login
from clew.cli.restoring import changed_lines
from clew.core.codec import strict_json
from clew.core.ids import split_key
from clew.core.review import DidNotHappen, GiveUp, Happened, Settlement
from clew.errors import UsageError
from clew.runtime.home import Home
from clew.runtime.reviewing import pick_call
from clew.views.account import started_lines
from clew.views.effects import evidence_lines, standing
from clew.views.timeline import concerns, line_of, log_lines, proof_lines

END_S: Final = 15.0
LOOK_S: Final = 0.05
NOTHING_STARTED: Final = "it had started nothing that could change the world"
VERDICTS: Final = ("happened", "did-not-happen", "give-up")


def settle(
    desk: Desk,
    run: str,
    words: tuple[str | None, str | None],
    *,
    by: str,
    reason: str,
    result: str | None,
    evidence: list[str],
    control_id: str = "",
) -> int:
    """Record what a person found out about an open effect."""
    call, verdict = _call_and_verdict(words, result)
    home = desk.home("operator").require()
    if ":" in run:
        run, call = split_key(run)[0], run
    run_id = home.find(run)
    # By its name from here on: until a living writer reads it, another effect may be the only open one.
    shown, attempt = _show_evidence(desk, home, run_id, call)
    said: dict[str, Any] = {"by": by, "reason": reason, "evidence": evidence, "control_id": control_id}
    with desk.proof_of(home, run_id):
        settled = home.settle(run_id, verdict, call=shown, attempt=attempt, **said)
    if desk.options.json:
        desk.screen.answer_json(settled)
    else:
        desk.screen.answer(f"{settled['stepId']} {settled['tool']}: {standing(settled)}")
        desk.screen.tell(*desk.block(home, run_id))
    return 0


def _call_and_verdict(words: tuple[str | None, str | None], result: str | None) -> tuple[str | None, Settlement]:
    first, second = words
    call, said = (None, first) if second is None else (first, second)
    if said not in VERDICTS:
        raise UsageError(
            f"{said!r} is no settlement" if said else "no settlement is named",
            code="invalid_settlement",
            next=f"Say one of: {', '.join(VERDICTS)}.",
        )
    if said != "happened" and result is not None:
        raise UsageError(
            f"{said} has no result",
            code="invalid_settlement",
            next="Leave --result out, or settle it as happened.",
        )
    return call, _verdict(said, result)


def _verdict(said: str, result: str | None) -> Settlement:
    if said == "happened":
        return Happened() if result is None else Happened(_json(result))
    return DidNotHappen() if said == "did-not-happen" else GiveUp()


def _json(text: str) -> Any:
    try:
        return strict_json(text.encode("utf-8", "surrogatepass"))
    except ValueError as fault:
        raise UsageError(
            f"--result is not JSON: {fault}",
            code="result_not_json",
            next="""Give what the tool would have returned, as JSON: --result '{"transfer":"T-77"}'.""",
        ) from None


def _show_evidence(desk: Desk, home: Home, run_id: str, name: str | None) -> tuple[str, int]:
    """What is known, before it is settled: the call, its key, its times and receipts, what a probe said.

    Returns:
        The key of the call that was shown, and its attempt.
    """
    reader = home.reader
    state = reader.see(run_id).state
    call = pick_call(state, name)
    when = desk.when(home)
    told = [record for record in reader.records(run_id) if concerns(record, call.step_id, call.call_id)]
    history = [text for record in told for text in log_lines(line_of(record), when)]
    effect = reader.effect(state, call)
    files = changed_lines(desk, home, run_id, effect.get("checkpointId"))
    desk.screen.tell(*evidence_lines(effect, when), *files, "its journal so far", *history)
    return call.key, call.attempt


def pause(desk: Desk, run: str, *, by: str | None, reason: str, control_id: str = "") -> int:
    """Ask a living run to pause at its next safe point."""
    home = desk.home().require()
    done = home.pause(run, by=by or login(home), reason=reason, control_id=control_id)
    _answer(desk, done, f"{done['runId']} pauses at its next safe point{_again(done)}")
    return 0


def steer(desk: Desk, run: str, text: str, *, by: str | None, control_id: str = "") -> int:
    """Tell a run's agent something; it reads that when it asks for it."""
    home = desk.home("operator").require()
    run_id = home.find(run)
    with desk.proof_of(home, run_id):
        done = home.steer(run_id, text, by=by or login(home), control_id=control_id)
    _answer(desk, done, f"{run_id} is told when its agent asks{_again(done)}")
    return 0


def abort(desk: Desk, run: str, *, by: str | None, reason: str, control_id: str = "") -> int:
    """End a run for good; what it had started stays listed, and what could not be ended is named."""
    home = desk.home("operator").require()
    run_id = home.find(run)
    with desk.proof_of(home, run_id):
        done = home.abort(run_id, by=by or login(home), reason=reason, control_id=control_id)
    row = _at_its_end(home, run_id)
    if desk.options.json:
        desk.screen.answer_json({**done, "state": row["state"], "message": row.get("message", "")})
        return 0
    ended = row["state"] in ("completed", "failed")
    what = "is aborted and never goes on" if ended else "is aborting: it ends when what it started has ended"
    desk.screen.answer(f"{run_id} {what}{_again(done)}")
    desk.screen.tell(*_what_it_had_started(home, run_id), *desk.block(home, run_id))
    return 0


def _what_it_had_started(home: Home, run_id: str) -> list[str]:
    """Its effects, whatever became of them, and its children, which list their own."""
    state = home.reader.see(run_id).state
    started = [effect for effect in home.reader.effects(state) if effect["status"] != "not_started"]
    children = [f"  {child.step_id}  clew show {child.child_id}" for child in state.delegations.values()]
    if not started and not children:
        return [NOTHING_STARTED]
    return ["what it had started:", *started_lines(started), *children]


def _at_its_end(home: Home, run_id: str) -> dict[str, Any]:
    """The run's row once a living writer has come to the end of its abort, or does not in a while."""
    clock = home.reader.clock
    until_s = clock.monotonic_s() + END_S
    row = home.reader.row(run_id)
    while row["state"] not in ("completed", "failed") and clock.monotonic_s() < until_s:
        clock.sleep(LOOK_S, lambda: False)
        row = home.reader.row(run_id)
    return row


def _again(done: dict[str, Any]) -> str:
    """That it was done before, under the same id."""
    return " (it was asked before)" if done["status"] == "duplicate" else ""


def unlock(desk: Desk, run: str | None, *, nonce: str | None, by: str, reason: str) -> int:
    """Close the leg of an owner that cannot be proven gone, or free a copied home, on a person's word."""
    if run is None and nonce is None and desk.options.home is not None:
        return _unlock_home(desk, by=by, reason=reason)
    if run is None or nonce is None:
        raise UsageError(
            "a run is unlocked by its open leg's nonce, a copied home by its path",
            code="unlock_incomplete",
            next="Say clew unlock RUN --nonce N, or clew unlock --home PATH; with --by NAME --reason TEXT.",
        )
    home = desk.home("operator").require()
    run_id = home.find(run)
    leg = home.reader.see(run_id).state.unclosed_leg
    if leg is not None:
        owner = leg.owner
        seen = home.reader.store.owner_state(owner)
        desk.screen.tell(
            f"owner      pid {owner.get('pid')} on {owner.get('host')} by {owner.get('user')}, leg {leg.number}",
            f"nonce      {leg.nonce}",
            f"from here  {seen}",
        )
    done = home.unlock(run_id, nonce=nonce, by=by, reason=reason)
    desk.screen.tell(*proof_lines(done["proofs"]))
    _answer(desk, done, f"{run_id} is unlocked")
    desk.screen.tell(f"next: clew resume {run_id}")
    return 0


def _unlock_home(desk: Desk, *, by: str, reason: str) -> int:
    """Let the runs of a copied home go on, on a person's word."""
    home = desk.home("operator").require()
    done = home.unlock_copy(by=by, reason=reason)
    _answer(desk, done, f"{done['path']} is unlocked")
    desk.screen.tell("next: clew resume --all  lets what is interrupted in it go on")
    return 0


@dataclass(frozen=True)
class Loss:
    """A loss that a person accepts: who, why, and the open leg's nonce where its owner is in doubt."""

    accepted: bool
    by: str
    reason: str
    nonce: str


def accept_loss(desk: Desk, run: str | None, loss: Loss) -> int:
    """Go on from what a journal still has, on a person's word."""
    if run is None or not loss.accepted:
        raise UsageError(
            "a loss is accepted for one run, with --accept-loss",
            code="acceptance_incomplete",
            next="Say all of it: clew verify RUN --accept-loss --by NAME --reason TEXT.",
        )
    home = desk.home("operator").require()
    done = home.accept_loss(run, by=loss.by, reason=loss.reason, nonce=loss.nonce)
    run_id = done["runId"]
    desk.screen.tell(
        f"what was recorded after record {done['keptSequence']} is gone: an effect that only those records told of",
        "would start again; look for it where it happens before you resume",
    )
    _answer(desk, done, f"{run_id} goes on from record {done['keptSequence']}")
    desk.screen.tell(f"next: clew resume {run_id} --dry-run  says what starts then")
    return 0


def _answer(desk: Desk, done: dict[str, Any], words: str) -> None:
    if desk.options.json:
        desk.screen.answer_json(done)
    else:
        desk.screen.answer(words)
