"""One call as its journal tells it, and how each fact moves it. Facts that cannot follow are refused by `Illegal`."""

from typing import Any

import msgspec

from clew.core import capability as capabilities
from clew.core.capability import Capability
from clew.core.receipts import may_follow
from clew.core.review import Review


class Illegal(ValueError):
    """A fact that cannot stand here; `code` is the error code it has on read."""

    def __init__(self, why: str, code: str = "run_state_corrupt") -> None:
        super().__init__(why)
        self.why = why
        self.code = code


class AnswerRef(msgspec.Struct, frozen=True, gc=False):
    """Where an answer stands: the position of its record, and its blob when it is too long for one."""

    position: int
    is_error: bool
    blob: str | None = None


class CallState(msgspec.Struct, frozen=True, gc=False):
    """One call, folded. `attempt` counts receipts from 1, 0 when there is none; `status` is the last, empty if none.

    A denial cut off before its answer leaves attempt 1 at `not_started`; the call then starts as attempt 2, for under
    one key nothing may follow that receipt.

    `position` is where its `tool_call` stands; `started_ms` when the last attempt opened (milliseconds since 1970);
    `since_ms` when the first of those did that nobody can vouch for: from then on the other side may know the key;
    `persistence` says that a committed attempt's answer could not be kept (`failed`) or must not be (`withheld`: the
    tool is secret).
    """

    step_id: str
    call_id: str
    key: str
    tool: str
    turn_id: str
    fingerprint: str
    position: int
    capability: Capability | None = None
    attempt: int = 0
    status: str = ""
    started_ms: int = 0
    since_ms: int = 0
    review: Review | None = None
    answer: AnswerRef | None = None
    persistence: str = ""

    @property
    def path(self) -> str:
        """The step around it, empty at the root."""
        return self.step_id.rpartition(".")[0]

    @property
    def settled_by(self) -> Review | None:
        """The review of the last attempt, if it counts."""
        return self.review if self.review is not None and self.review.given else None

    @property
    def open(self) -> bool:
        """Did the last attempt start, and does nothing say how it ended?"""
        return self.status in ("started", "unknown") and self.settled_by is None

    @property
    def unsettled(self) -> bool:
        """No answer, and the last attempt is open or committed: a run with such a call never completes."""
        if self.answer is not None:
            return False
        if self.status == "committed":
            return self.settled_by is None and self.persistence != "withheld"
        return self.open

    @property
    def may_change_the_world(self) -> bool:
        """Anything but effect none and replay safe."""
        return self.capability is None or not self.capability.free


def resolved(call: CallState, event: dict[str, Any]) -> CallState:
    """The call with its capability."""
    found = capabilities.read(event.get("capability"))
    if found is None:
        raise Illegal("the capability is not one of contract §2.9")
    if event.get("recoveryDisposition") != found.disposition:
        raise Illegal(f"the disposition does not follow from the capability; expected {found.disposition!r}")
    if call.capability is not None and call.capability != found:
        raise Illegal(f"call {call.call_id!r} has another capability already", "effect_receipt_conflict")
    return msgspec.structs.replace(call, capability=found)


def received(call: CallState, attempt: int, event: dict[str, Any], at_ms: int) -> CallState:
    """The call with one more receipt."""
    status = event.get("status")
    if status == "started":
        _check_start(call, attempt)
        since = call.since_ms if call.open else at_ms
        return msgspec.structs.replace(
            call, attempt=attempt, status="started", started_ms=at_ms, since_ms=since, review=None
        )
    if type(status) is not str or attempt != max(call.attempt, 1) or not may_follow(call.status, status):
        last = f"{call.status or 'nothing'!r} of attempt {call.attempt}"
        raise Illegal(f"receipt {status!r} of attempt {attempt} cannot follow {last}", "effect_receipt_conflict")
    if call.settled_by is not None:
        raise Illegal(f"receipt {status!r} comes after attempt {attempt} was settled", "effect_receipt_conflict")
    return msgspec.structs.replace(call, attempt=attempt, status=status, persistence=str(event.get("persistence", "")))


def _check_start(call: CallState, attempt: int) -> None:
    if attempt != call.attempt + 1:
        raise Illegal(f"attempt {attempt} cannot follow attempt {call.attempt}", "effect_receipt_conflict")
    if call.answer is not None:
        raise Illegal(f"call {call.call_id!r} has its answer; it cannot start again", "effect_receipt_conflict")
    if call.capability is None:
        raise Illegal(f"call {call.call_id!r} starts without a capability", "effect_receipt_conflict")
    if attempt == 1:
        legal = may_follow(call.status, "started")
    else:
        review = call.settled_by
        proved = review is not None and review.outcome == "did_not_happen"
        legal = proved or call.status == "not_started" or (call.open and call.capability.replay == "idempotent")
    if not legal:
        raise Illegal(
            f"attempt {attempt} starts although nothing says that attempt {call.attempt} did not happen",
            "effect_receipt_conflict",
        )


def reviewed(call: CallState, attempt: object, review: Review) -> CallState:
    """The call with a settlement of its last attempt."""
    if type(attempt) is not int or attempt != call.attempt or call.attempt == 0:
        raise Illegal(f"review {review.review_id!r} names attempt {attempt!r}; the last one is {call.attempt}")
    settled = call.settled_by
    if settled is not None:
        raise Illegal(f"attempt {attempt} is settled already: {settled.outcome} by {settled.by!r}", "review_conflict")
    if not call.unsettled and not _brings_a_lost_result(call, review):
        raise Illegal(f"attempt {attempt} is not open; there is nothing to settle", "review_conflict")
    if call.status == "committed" and review.outcome == "did_not_happen":
        raise Illegal(f"attempt {attempt} is committed; it cannot have not happened", "review_conflict")
    return msgspec.structs.replace(call, review=review)


def doubted(call: CallState, at_ms: int) -> CallState:
    """The call after a loss of records was accepted: a start, or its end, may be among them, so its attempt is open."""
    if call.open:
        return call
    return msgspec.structs.replace(call, attempt=call.attempt + 1, status="unknown", started_ms=at_ms, review=None)


def _brings_a_lost_result(call: CallState, review: Review) -> bool:
    """A result that was kept beside the journal, or not at all, may be given anew; nothing else about it may change."""
    lost = call.persistence == "withheld" if call.answer is None else call.answer.blob is not None
    return lost and review.outcome == "happened"


def answered(call: CallState, answer: AnswerRef) -> CallState:
    """The call with its answer; a review that announced a result is complete with it."""
    review = call.review
    if call.answer is not None and (review is None or review.given):
        raise Illegal(f"step {call.step_id!r} has its answer already")
    if review is None and call.status in ("unknown", "committed"):
        raise Illegal(f"call {call.call_id!r} is {call.status}; only a review can bring its answer")
    if review is not None and not review.given:
        review = msgspec.structs.replace(review, complete=True)
    return msgspec.structs.replace(call, answer=answer, review=review)
