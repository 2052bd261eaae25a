"""One effect, walked once: a generator that yields what it needs and is sent the answer. Drivers do the deeds.

The async driver, the sync driver and "crash here" are three drivers of this one walk (`runtime/gate`, `testing`).
"""

from collections.abc import Generator
from typing import Any, Final

import msgspec

from clew.core import events
from clew.core.answers import Answer, ErrorAnswer, Unrecorded, beside, inline, is_long, json_text
from clew.core.events import Answering, CallFacts, Event, Opening
from clew.core.needs import (
    Allow,
    Answered,
    Append,
    Ask,
    Call,
    Cancelled,
    Closing,
    Consult,
    Deny,
    End,
    GaveUp,
    Halt,
    Heard,
    Hold,
    Interrupted,
    Need,
    Now,
    Probe,
    ProbeFacts,
    Raised,
    Returned,
    Save,
    Seek,
    Taken,
    Wait,
)
from clew.core.receipts import ReceiptStatus
from clew.core.review import (
    CannotTell,
    DidNotHappen,
    GiveUp,
    Happened,
    Settlement,
    Verdict,
    missing_result_message,
    outcome_of,
)
from clew.core.times import format_ms

ASKING_S: Final = 60.0
RETRY_S: Final = 5.0
KEY_HELD: Final = "key_held"
"""The kind of the answer of a call whose business key another call has."""
KEY_LOOKS: Final = 40
KEY_LOOK_S: Final = 0.05


class Walk:
    """One call on its way through the gate. Lives until it has an end; `run()` is the generator.

    Args:
        call: Who the call is.
        arguments: Redacted arguments, as they are recorded.
        attempt: Attempts that the journal knows; 0 for a new call.
        recorded: The `tool_call` stands in the journal already.
        resolved: A recorded call has its capability too; False when a death came between the two.
        probe: How to ask after an open attempt, if it can be asked.
        secret: The answer is handed on and never stored.
        doubt_ms: When the last attempt started (milliseconds since 1970), if it is open and the probe is to be asked
            before anything else; 0 otherwise.

    Source:
        DESIGN §5, stages 1 to 7'; reference/journal.md §1, order inside an append.
    """

    def __init__(
        self, call: CallFacts, arguments: Any, *, attempt: int = 0, recorded: bool = False, resolved: bool = True,
        rerun: bool = False, probe: ProbeFacts | None = None, secret: bool = False, doubt_ms: int = 0,
    ) -> None:  # fmt: skip
        self.call, self.arguments, self.attempt = call, arguments, attempt
        self.recorded, self.resolved = recorded, resolved
        self.rerun = self.again = rerun
        self.probe, self.secret, self.doubt_ms = probe, secret, doubt_ms

    def run(self) -> Generator[Need, Any, End]:
        """Walk to an end."""
        if self.doubt_ms:
            end = yield from self._doubt_first(stop=False)
            if end is not None:
                return end
        end = yield from self._refusal()
        if end is not None:
            return end
        if self.call.capability.free:
            return (yield from self._run_free())
        return (yield from self._run_attempts())

    def recheck(self) -> Generator[Need, Any, End]:
        """Ask after an open attempt of an earlier leg, without starting anything. `Interrupted`: it is settled."""
        end = yield from self._doubt_first(stop=True)
        return end or Interrupted()

    def _doubt_first(self, *, stop: bool) -> Generator[Need, Any, End | None]:
        """An attempt of an earlier leg is open: ask before anything else."""
        assert self.probe is not None
        verdict = yield from ask(self.probe, self.attempt, self.doubt_ms)
        if isinstance(verdict, CannotTell):
            return Closing("unknown_effect", verdict.reason, verdict.retry_in_s)
        return (yield from self._settled(verdict, Cancelled(), stop=stop, last=False))

    def _proposal(self) -> list[Event]:
        """Stage 1, once per call."""
        call = [] if self.recorded else [events.tool_call(self.call, self.arguments)]
        capability = [] if self.recorded and self.resolved else [events.capability_resolved(self.call)]
        self.recorded = self.resolved = True
        return [*call, *capability]

    def _receipt(self, status: ReceiptStatus, persistence: str = "") -> Event:
        return events.receipt(self.call, self.attempt, status, persistence=persistence)

    def _error_answer(self, kind: str, message: str) -> tuple[Answer, list[Event]]:
        answer = Answer(None, ErrorAnswer(kind, message))
        told = inline(self.call.step_id, answer, "null")
        return answer, [told, events.tool_result(self.call, is_error=True)]

    def _refusal(self) -> Generator[Need, Any, End | None]:
        """Stages 2 and 3: how the walk ends when the next attempt may not start; None when it may."""
        again, self.rerun = self.rerun, False
        decision = yield Ask(self.attempt + 1, again=again)
        while isinstance(decision, Seek):
            end = yield from self._approval(decision)
            if end is not None:
                return end
            decision = yield Ask(self.attempt + 1, again=again)
        if isinstance(decision, Halt):
            return Closing(decision.reason)
        if isinstance(decision, Deny) and again:
            return Closing("unknown_effect", decision.reason)
        if isinstance(decision, Deny):
            return (yield from self._deny(decision.reason))
        return None

    def _approval(self, wanted: Seek) -> Generator[Need, Any, End | None]:
        """Stage 3: the question is a record before anybody is asked. None: allowed, which is on disk as well."""
        if wanted.said:
            yield Append(wanted.said)
        heard: Heard | None = yield Consult(self.call.step_id)
        if heard is None:
            return Closing("approval_required")
        if heard.event is not None:
            yield Append((heard.event,) if heard.allowed else self.rejection(heard))
        if heard.allowed:
            return None
        if heard.answer is not None:
            return Answered(Answer(None, ErrorAnswer("denied", heard.answer)))
        return Closing("tool_approval_denied", heard.detail)

    def rejection(self, heard: Heard) -> tuple[Event, ...]:
        """A person said no: the decision, then the call with its receipt, and the answer if the no is one."""
        said = [heard.event, *self._proposal()]
        if self.attempt == 0:
            said.append(events.effect_receipt(self.call, "not_started"))
        told = [] if heard.answer is None else self._error_answer("denied", heard.answer)[1]
        return (*said, *told)

    def _deny(self, reason: str) -> Generator[Need, Any, End]:
        """Stage 2: nothing starts, the denial is the answer."""
        answer, told = self._error_answer("denied", reason)
        said = [*self._proposal(), events.policy_denied(self.call, reason)]
        if self.attempt == 0:
            said.append(events.effect_receipt(self.call, "not_started"))
        yield Append((*said, *told))
        return Answered(answer)

    def _run_free(self) -> Generator[Need, Any, End]:
        """Effect none and replay safe: no receipts; raising is an error answer; cancelled, it may simply run again."""
        proposal = self._proposal()
        if proposal:
            yield Append(tuple(proposal))
        outcome = yield Call(max(self.attempt, 1))
        if isinstance(outcome, Cancelled):
            return Interrupted()
        if isinstance(outcome, Raised):
            answer, told = self._error_answer(outcome.kind, outcome.message)
            yield Append(tuple(told))
            return Answered(answer)
        return (yield from self._keep(outcome, attempted=False))

    def _run_attempts(self) -> Generator[Need, Any, End]:
        """Stages 5 to 7': open an attempt, run it, record what is known of it; at most once more by itself."""
        last = False
        while True:
            if self.call.business is not None:
                end = yield from self._take_key()
                if end is not None:
                    return end
            self.attempt += 1
            yield Append(self._start(), starts=True)
            outcome = yield Call(self.attempt)
            if isinstance(outcome, Returned):
                return (yield from self._keep(outcome, attempted=True))
            end = (yield from self._doubt(outcome, last=last)) or (yield from self._refusal())
            if end is not None:
                return end
            last, self.again = True, False

    def _start(self) -> tuple[Any, ...]:
        """Stage 5, behind what is not recorded of stage 1."""
        if self.attempt == 1 and not self.recorded:
            self.recorded = self.resolved = True
            return (Opening(self.call, self.arguments),)
        return (*self._proposal(), self._receipt("started"))

    def _take_key(self) -> Generator[Need, Any, End | None]:
        """Before stage 5: None when the business key is this attempt's; else nothing starts, and that is the answer."""
        said = yield from self._held()
        if isinstance(said, Allow):
            return None
        if not isinstance(said, Taken):
            return Closing("unknown_effect", "interrupted") if self.again else Interrupted()
        if self.again:
            return Closing("unknown_effect", said.message)
        answer = said.answer or Answer(said.holder, ErrorAnswer(KEY_HELD, said.message, said.holder))
        told = yield from tell(self.call, answer, json_text(answer.value))
        if told is None:
            return Closing("result_not_kept", "the answer could not be kept beside the journal")
        if said.answer is not None:
            told["heldBy"] = said.holder
        said = [*self._proposal(), *([] if self.attempt else [events.effect_receipt(self.call, "not_started")])]
        yield Append((*said, told, events.tool_result(self.call, is_error=answer.error is not None)))
        return Answered(answer)

    def _held(self) -> Generator[Need, Any, Any]:
        """Ask for the key; who is about to start is waited for a little: it starts, or turns out to be gone."""
        said: Any = None
        for _ in range(KEY_LOOKS):
            said = yield Hold(self.attempt + 1)
            if not isinstance(said, Taken) or not said.starting or (yield Wait(KEY_LOOK_S)):
                break
        return said

    def _keep(self, outcome: Returned, *, attempted: bool) -> Generator[Need, Any, End]:
        """Stage 7: it returned, that is known."""
        failed = outcome.failed
        answer = Answer(outcome.value, None if failed is None else ErrorAnswer("failed", failed, outcome.value))
        if self.secret:
            if attempted:
                yield Append((self._receipt("committed", "withheld"),))
            return Answered(answer)
        text = json_text(answer.value)
        if attempted and self.attempt == 1 and failed is None and not is_long(text):
            yield Append((Answering(self.call, text),))
            return Answered(answer)
        told = yield from tell(self.call, answer, text)
        if told is None:
            if attempted:
                yield Append((self._receipt("committed", "failed"),))
            return Closing("result_not_kept", "the answer could not be kept beside the journal")
        committed = [self._receipt("committed")] if attempted else []
        yield Append((told, *committed, events.tool_result(self.call, is_error=failed is not None)))
        return Answered(answer)

    def _doubt(self, outcome: Raised | Cancelled, *, last: bool) -> Generator[Need, Any, End | None]:
        """Stage 7': nobody returned. None: it is proved that nothing happened and the call may start once more."""
        cancelled = isinstance(outcome, Cancelled)
        if isinstance(outcome, Raised) and outcome.nothing_happened:
            return (yield from self._nothing_happened(outcome))
        if isinstance(outcome, Cancelled) and outcome.before_start:
            proof = self._review(DidNotHappen("cancelled before its body began"), "tool", self.call.tool, [])
            yield Append((self._receipt("unknown"), proof))
            return Interrupted()
        yield Append((self._receipt("unknown"),))
        if self.probe is None:
            why = "cancelled" if isinstance(outcome, Cancelled) else f"{outcome.kind}: {outcome.message}"
            return Closing("unknown_effect", why)
        # The body may have sent its request as its last deed, so doubt begins when it ended, not when it started.
        ended_ms = yield Now()
        verdict = yield from ask(self.probe, self.attempt, ended_ms)
        if isinstance(verdict, CannotTell):
            return Closing("unknown_effect", verdict.reason, verdict.retry_in_s)
        return (yield from self._settled(verdict, outcome, stop=cancelled, last=last))

    def _settled(
        self, verdict: Settlement, outcome: Raised | Cancelled, *, stop: bool, last: bool
    ) -> Generator[Need, Any, End | None]:
        """The probe knows."""
        assert self.probe is not None
        by, source = self.probe.by, self.probe.source
        evidence = [probe_evidence(self.probe, (yield Now()))]
        if isinstance(verdict, Happened):
            answer = yield from settle_happened(
                self.call, self.attempt, verdict, by=by, evidence=evidence, source=source, secret=self.secret
            )
            return Interrupted() if stop else Answered(answer)
        review = self._review(verdict, source, by, evidence)
        if isinstance(verdict, GiveUp):
            yield Append((review,))
            return GaveUp()
        if last and not stop and isinstance(outcome, Raised):
            answer, told = self._error_answer(outcome.kind, outcome.message)
            yield Append((review, *told))
            return Answered(answer)
        yield Append((review,))
        return Interrupted() if stop else None

    def _nothing_happened(self, outcome: Raised) -> Generator[Need, Any, End]:
        """The tool itself knows: an error answer and its review, with the receipt, in one append."""
        review = self._review(DidNotHappen(f"{outcome.kind}: {outcome.message}"), "tool", self.call.tool, [])
        answer, told = self._error_answer("nothing_happened", outcome.message)
        yield Append((self._receipt("unknown"), review, *told))
        return Answered(answer)

    def _review(self, verdict: Settlement, source: Any, by: str, evidence: list[Event]) -> Event:
        return review_event(self.call, self.attempt, verdict, source=source, by=by, evidence=evidence)


def tell(call: CallFacts, answer: Answer, text: str) -> Generator[Need, Any, Event | None]:
    """The event of an answer that is this JSON text, kept first when it is long. None: it could not be kept."""
    if not is_long(text):
        return inline(call.step_id, answer, text)
    data = text.encode()
    digest = yield Save(data)
    return None if digest is None else beside(call.step_id, answer, text, digest, len(data))


def ask(probe: ProbeFacts, attempt: int, started_ms: int) -> Generator[Need, Any, Verdict]:
    """Ask until it is known, at most for a minute. "Did not happen" counts only once no request can still land."""
    since = asked = yield Now()
    while True:
        verdict: Verdict = yield Probe(attempt)
        if isinstance(verdict, Happened | GiveUp) or probe.has_said_all(verdict):
            return verdict
        if isinstance(verdict, DidNotHappen):
            # From when it was asked, not from when it answered: a request may land while the probe looks.
            wait_s = started_ms / 1000 + probe.in_doubt_s - asked / 1000
            if wait_s <= 0:
                return verdict
            reason = f"not there yet; a request may still land for {wait_s:.0f} s"
        else:
            wait_s = RETRY_S if verdict.retry_in_s is None else max(0.0, verdict.retry_in_s)
            reason = verdict.reason
        now = yield Now()
        if (now - since) / 1000 + wait_s > ASKING_S:
            return CannotTell(reason, wait_s)
        cut_short = yield Wait(wait_s)
        if cut_short:
            return CannotTell(reason, wait_s)
        asked = yield Now()


def settle_happened(
    call: CallFacts, attempt: int, verdict: Happened, *, by: str, evidence: list[Event], source: Any = "probe",
    secret: bool = False,
) -> Generator[Need, Any, Answer | Unrecorded]:  # fmt: skip
    """Record that an attempt happened, with its result where one is given and can be kept; a secret one never is."""
    given = verdict.result is not msgspec.UNSET
    answer = Answer(verdict.result if given else None)
    told = (yield from tell(call, answer, json_text(answer.value))) if given and not secret else None
    kept = told is not None
    review = review_event(call, attempt, verdict, source=source, by=by, evidence=evidence, result_recorded=kept)
    yield Append((review,) if told is None else (review, told))
    if kept or (given and secret):
        return answer
    return Unrecorded(missing_result_message(call.tool, by))


def review_event(
    call: CallFacts, attempt: int, verdict: Settlement, *, source: Any, by: str, evidence: list[Event],
    result_recorded: bool = False,
) -> Event:  # fmt: skip
    """The event of a settlement; its id is given when it is appended."""
    return events.effect_review(
        step_id=call.step_id,
        call_id=call.call_id,
        key=call.key,
        attempt=attempt,
        review_id="",
        outcome=outcome_of(verdict),
        source=source,
        by=by,
        reason=verdict.reason.strip() or "as the probe said",
        evidence=evidence,
        result_recorded=result_recorded,
    )


def probe_evidence(probe: ProbeFacts, at_ms: int) -> Event:
    """What a probe's answer rests on."""
    if probe.source == "checkpoint":
        return {"kind": "checkpoint", "askedAt": format_ms(at_ms)}
    whole = float(probe.in_doubt_s).is_integer()
    doubt = {"inDoubtS": int(probe.in_doubt_s)} if whole else {"inDoubtMs": round(probe.in_doubt_s * 1000)}
    return {"kind": "probe", "askedAt": format_ms(at_ms), **doubt}
