"""What a person says of an open effect: which one is meant, may it be settled, how that is recorded. No store here."""

from collections.abc import Callable, Generator
from typing import Any

import msgspec

from clew.core.calls import CallState
from clew.core.capability import resolve
from clew.core.effect import review_event, settle_happened
from clew.core.jsonable import to_json
from clew.core.needs import Append, Need
from clew.core.outcome import effect_row
from clew.core.redact import Redactor
from clew.core.resume import check_ours
from clew.core.review import DidNotHappen, GiveUp, Happened, Settlement, outcome_of
from clew.core.state import RunState
from clew.errors import Refused, UsageError
from clew.runtime.tickets import facts_of

Walking = Generator[Need, Any, Any]


# What a person types is kept and shown to others; what the agent's secrets are, only its own process knows.
_SHAPES = Redactor()


class Said(msgspec.Struct, frozen=True):
    """Who settles, why, and on what evidence; known shapes of secrets in it are hidden."""

    by: str
    reason: str
    evidence: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.by.strip() or not self.reason.strip():
            raise UsageError(
                "a decision names nobody or no reason",
                code="review_incomplete",
                next="Say who decides and why: --by NAME --reason TEXT.",
            )
        msgspec.structs.force_setattr(self, "by", _SHAPES.text(self.by))
        msgspec.structs.force_setattr(self, "reason", _SHAPES.text(self.reason))
        msgspec.structs.force_setattr(self, "evidence", tuple(map(_SHAPES.text, self.evidence)))

    def recorded(self) -> list[dict[str, Any]]:
        """The member `evidence` of a review."""
        return [{"kind": "text", "text": text} for text in self.evidence]


def pick_call(state: RunState, name: str | None) -> CallState:
    """The call that is meant: by step id, call id or key; without a name, the only one that is open.

    Raises:
        Refused: `nothing_to_settle`, `foreign_run`.
        UsageError: `which_effect` when several are open.
    """
    check_ours(state)
    if name:
        call = state.find_call(name)
        if call is None:
            raise _nothing(state, f"there is no call {name!r}")
        return call
    waiting = state.unsettled()
    if not waiting:
        raise _nothing(state, "no effect is open")
    if len(waiting) > 1:
        names = ", ".join(f"{call.step_id} ({call.tool})" for call in waiting)
        raise UsageError(
            f"run {state.run_id!r} has {len(waiting)} open effects: {names}",
            code="which_effect",
            next="Name one of them behind the run.",
            effects=[effect_row(call) for call in waiting],
        )
    return waiting[0]


def check_open(
    state: RunState, call: CallState, verdict: Settlement, kept: Callable[[str], bool] = lambda digest: False
) -> None:
    """May this call's last attempt be settled so? `kept`: are the bytes of this digest there and whole?

    Raises:
        Refused: `review_conflict` when it is settled already, or would contradict what is recorded;
            `nothing_to_settle` when it is not open.
    """
    settled = call.settled_by
    if settled is not None:
        raise Refused(
            f"attempt {call.attempt} of {call.key!r} is settled already: "
            f"{settled.outcome} by {settled.by!r} ({settled.reason})",
            code="review_conflict",
            next="A settlement stands; a later attempt gets its own.",
            run=state.run_id,
        )
    if not call.unsettled and not _lost(call, kept):
        raise _nothing(state, f"{call.step_id!r} is not open (it is {call.status or 'not started'})")
    given_up = isinstance(verdict, GiveUp) and call.unsettled
    if call.status == "committed" and not isinstance(verdict, Happened) and not given_up:
        raise Refused(
            f"attempt {call.attempt} of {call.key!r} is committed: it happened, only its result is lost",
            code="review_conflict",
            next="Settle it as happened, with --result where somebody knows it.",
            run=state.run_id,
        )


def _lost(call: CallState, kept: Callable[[str], bool]) -> bool:
    """Is its result known to have been there, and is there no more?"""
    if call.answer is None:
        return call.persistence == "withheld"
    return call.answer.blob is not None and not kept(call.answer.blob)


def _nothing(state: RunState, why: str) -> Refused:
    return Refused(
        f"run {state.run_id!r}: {why}",
        code="nothing_to_settle",
        next=f"See its effects with `clew show {state.run_id} --effects`; what is settled goes on with `clew resume`.",
        run=state.run_id,
    )


def as_json(verdict: Settlement) -> Settlement:
    """A settlement whose result is JSON, known shapes of secrets in it hidden. `UsageError` (`value_not_json`)."""
    if isinstance(verdict, Happened) and verdict.result is not msgspec.UNSET:
        return Happened(_SHAPES.answer(to_json(verdict.result, at="result")), verdict.reason)
    return verdict


def as_arguments(call: CallState, verdict: Settlement, said: Said) -> dict[str, Any]:
    """A settlement as a command carries it: of this attempt and no later one."""
    told: dict[str, Any] = {"call": call.step_id, "attempt": call.attempt}
    told |= {"outcome": outcome_of(verdict), "evidence": said.recorded()}
    if isinstance(verdict, Happened) and verdict.result is not msgspec.UNSET:
        told["result"] = verdict.result
    return told


def settlement_of(arguments: dict[str, Any]) -> Settlement:
    """A settlement as a command carries it.

    Raises:
        UsageError: `control_invalid` for another outcome.
    """
    outcome = arguments.get("outcome")
    if outcome == "happened":
        return Happened(arguments["result"]) if "result" in arguments else Happened()
    if outcome in ("did_not_happen", "give_up"):
        return DidNotHappen() if outcome == "did_not_happen" else GiveUp()
    raise _invalid(f"{outcome!r} is no settlement", "Say happened, did-not-happen or give-up.")


def evidence_of(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """The evidence that a command carries.

    Raises:
        UsageError: `control_invalid` when it is no list of objects.
    """
    evidence = arguments.get("evidence", [])
    if type(evidence) is not list or any(type(piece) is not dict for piece in evidence):
        raise _invalid("the evidence is no list of objects", "Give each piece of evidence as an object.")
    return evidence


def check_attempt(call: CallState, attempt: object) -> None:
    """What was found out of one attempt settles no other.

    Raises:
        Refused: `review_conflict` when the call was started again since.
    """
    if attempt != call.attempt:
        raise Refused(
            f"the settlement is of attempt {attempt} of {call.key!r}, which is at attempt {call.attempt} by now",
            code="review_conflict",
            next="Look at the effect again before you decide.",
            key=call.key,
        )


def _invalid(why: str, next_step: str) -> UsageError:
    return UsageError(why, code="control_invalid", next=next_step)


def settling(
    run_id: str, call: CallState, verdict: Settlement, *, by: str, reason: str, evidence: list[dict[str, Any]]
) -> Walking:
    """Record a person's settlement of a call's last attempt, while the run may still go on."""
    facts = facts_of(run_id, call, resolve(call.tool))
    said = msgspec.structs.replace(verdict, reason=reason)
    if isinstance(said, Happened):
        return settle_happened(facts, call.attempt, said, by=by, evidence=evidence, source="operator")
    return _settle_otherwise(review_event(facts, call.attempt, said, source="operator", by=by, evidence=evidence))


def _settle_otherwise(review: dict[str, Any]) -> Walking:
    yield Append((review,))


def after_the_end(run_id: str, call: CallState, verdict: Settlement, said: Said) -> dict[str, Any]:
    """The review of an effect of a run that has ended: its result stands in the review itself."""
    facts = facts_of(run_id, call, resolve(call.tool))
    reasoned = msgspec.structs.replace(verdict, reason=said.reason)
    event = review_event(facts, call.attempt, reasoned, source="operator", by=said.by, evidence=said.recorded())
    if isinstance(verdict, Happened) and verdict.result is not msgspec.UNSET:
        event = {**event, "resultRecorded": True, "result": verdict.result}
    return event
