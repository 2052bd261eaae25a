"""What calls, turns and approvals in a journal of ours may do, judged from DESIGN alone: I-4 to I-7, I-10, I-12.

A second opinion: it shares no rule with `happenings` and `calls`, so that a fault in the fold is found here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from clew.core.consent import Consent
from clew.core.custody import Custody
from clew.core.findings import Slip

Event = dict[str, Any]
_OUTCOMES: Final = ("happened", "did_not_happen", "give_up")


class _Call:
    """One call: what is known of its last attempt, and what the agent was told.

    `settled` is the outcome of a review that counts, `promised` that of one whose result is still to come; `lost` says
    that a result may be given anew: it is kept beside the journal, or nowhere.
    """

    __slots__ = (
        "again", "answered", "attempt", "call_id", "fingerprint", "free", "is_error", "key", "keyed", "lost",
        "promised", "settled", "status", "told", "tool", "turn",
    )  # fmt: skip

    def __init__(self, call_id: str, key: str, fingerprint: object, tool: object, turn: str) -> None:
        self.call_id, self.key, self.fingerprint, self.tool, self.turn = call_id, key, fingerprint, tool, turn
        self.attempt = 0
        self.status = self.settled = self.promised = ""
        self.free = self.again = self.answered = self.is_error = self.lost = self.told = self.keyed = False

    @property
    def open(self) -> bool:
        """Started, and nobody can say how it ended."""
        return self.status in ("started", "unknown") and not self.settled and not self.answered

    @property
    def stands(self) -> str:
        """How it stands, in words."""
        return "answered" if self.answered else self.status or "not started"

    @property
    def unsettled(self) -> bool:
        """Open, or committed without an answer that could have been kept."""
        return self.open or (self.status == "committed" and not (self.settled or self.answered or self.lost))


@dataclass(slots=True)
class _Turn:
    """One turn: what was asked, whether it was answered, whether it is over."""

    asked: object
    answered: bool = False
    ended: bool = False


class Conduct:
    """The calls, turns, steps and approvals of one run of ours. Grows with their number, not with that of records.

    Attributes:
        state: The operation's state, as its last record says.
        agent_ended: Is the end of the agent recorded?
    """

    __slots__ = (
        "_calls", "_children", "_consent", "_custody", "_ids", "_note", "_run_id", "_steps", "_turns",
        "agent_ended", "state",
    )  # fmt: skip

    def __init__(self, run_id: str, slip: Slip) -> None:
        self._run_id = run_id
        self._note = slip.note
        self._calls: dict[str, _Call] = {}
        self._turns: dict[str, _Turn] = {}
        self._ids, self._steps, self._children = set[str](), set[str](), set[str]()
        self._consent = Consent(run_id, slip)
        self._custody = Custody(slip)
        self.state = "accepted"
        self.agent_ended = False

    def see(self, event: Event) -> None:
        """Judge one event and take it in."""
        rule = _RULES.get(event["type"])
        if rule is not None:
            rule(self, event)

    def keep(self, payload: dict[str, Any]) -> None:
        """A record of a checkpoint of a step; one of no step is of no attempt either."""
        step = payload.get("stepId")
        if step is not None:
            call = self._calls.get(step) if type(step) is str else None
            self._custody.see(payload, 0 if call is None else call.attempt, "" if call is None else call.status)

    def keys(self) -> Iterator[tuple[str, str]]:
        """Call id and key of every call."""
        return ((call.call_id, call.key) for call in self._calls.values())

    def doubt(self) -> None:
        """Records are missing, and a person accepted that: whatever might have started among them is in doubt."""
        for call in self._calls.values():
            if not (call.answered or call.free or call.open):
                call.attempt, call.status, call.settled, call.promised = call.attempt + 1, "unknown", "", ""

    def delegate(self, step: object) -> None:
        """A child run is about to begin, in a step of its own."""
        if type(step) is not str:
            self._note("I-6", "a child of no step", str(step))
            return
        if self.state != "running":
            self._begins("a child begins", step)
        if self._taken(step):
            self._note("I-4", "the step starts a second time", step)
        self._children.add(step)

    def end(self, status: object) -> None:
        """The journal is at its end; a run that succeeded leaves no call open (W38: the status is the outcome's)."""
        if status != "succeeded" and self.state != "completed":
            return
        for step, call in self._calls.items():
            if call.unsettled:
                self._note("I-7", f"the run succeeded although attempt {call.attempt} has no end", step)

    # What begins.

    def _begins(self, what: str, subject: str) -> None:
        """Something begins although the operation is not running."""
        if self.state == "aborting":
            self._note("I-10", f"{what} after an abort was asked for", subject)
        else:
            self._note("I-11", f"{what} while the operation is {self.state}", subject)

    def _taken(self, name: str) -> bool:
        return name in self._calls or name in self._turns or name in self._steps or name in self._children

    def _tool_call(self, event: Event) -> None:
        step, call_id, turn = event.get("stepId"), event.get("callId"), event.get("turnId")
        if type(step) is not str or type(call_id) is not str or type(turn) is not str:
            self._note("I-6", "a call names no step, no id or no turn", str(step))
            return
        if self.state != "running":
            self._begins("a call is proposed", step)
        if self._taken(step):
            self._note("I-4", "the step starts a second time", step)
            return
        key = f"{self._run_id}:{step}:{call_id}"
        if event.get("idempotencyKey") != key:
            self._note("I-6", "the key does not follow from run, step and call", step)
        if call_id in self._ids:
            self._note("I-6", f"call id {call_id!r} stands for another call already", step)
        self._ids.add(call_id)
        if turn not in self._turns and turn != "turn-0":
            self._note("I-5", f"a call of turn {turn!r}, which has not begun", step)
        call = self._calls[step] = _Call(call_id, key, event.get("argumentsFingerprint"), event.get("tool"), turn)
        call.keyed = type(event.get("businessKey")) is dict

    def _agent_start(self, event: Event) -> None:
        turn, asked = event.get("turnId"), event.get("requestFingerprint")
        if type(turn) is not str:
            self._note("I-5", "a turn has no id", str(turn))
            return
        if self.state != "running":
            self._begins("a turn begins", turn)
        known = self._turns.get(turn)
        if known is None and not self._taken(turn):
            self._turns[turn] = _Turn(asked)
        elif known is None or known.answered or known.ended or known.asked != asked:
            self._note("I-4", "the turn starts a second time", turn)

    def _turn_end(self, event: Event) -> None:
        turn = event.get("turnId")
        known = self._turns.get(turn) if type(turn) is str else None
        if self.state == "aborting":
            self._note("I-10", "a turn ends after an abort was asked for", str(turn))
        if known is None or known.ended:
            self._note("I-5", "a turn ends that is not open", str(turn))
        else:
            known.ended = True

    def _agent_end(self, event: Event) -> None:
        if self.state != "running":
            self._begins("the agent ends", "")
        if self.agent_ended:
            self._note("I-11", "the agent ends a second time")
        self.agent_ended = True

    # What is known of a call.

    def _call_of(self, event: Event) -> _Call | None:
        """The call that an event speaks of, by its step and its id."""
        step = event.get("stepId")
        call = self._calls.get(step) if type(step) is str else None
        if call is None or call.call_id != event.get("callId"):
            self._note("I-6", f"{event['type']} without its call", str(step))
            return None
        return call

    def _keyed(self, event: Event) -> _Call | None:
        """As `_call_of`, for events that carry the key."""
        call = self._call_of(event)
        if call is not None and event.get("idempotencyKey") != call.key:
            self._note("I-6", f"{event['type']} carries another key", event["stepId"])
            return None
        return call

    def _same_tool(self, call: _Call, event: Event) -> None:
        """What is told of a call is told of its tool, in its turn."""
        if event.get("tool") != call.tool:
            self._note("I-6", f"{event['type']} names another tool", event["stepId"])
        if event.get("turnId", call.turn) != call.turn:
            self._note("I-5", f"{event['type']} of another turn", event["stepId"])

    def _capability(self, event: Event) -> None:
        call, told = self._call_of(event), event.get("capability")
        if call is not None and type(told) is dict:
            self._same_tool(call, event)
            replay = told.get("replay")
            call.free = replay == "safe" and told.get("effect") == "none"
            call.again = replay == "idempotent"

    def _receipt(self, event: Event) -> None:
        call = self._keyed(event)
        if call is None:
            return
        bound = event.get("binding")
        if type(bound) is not dict or bound.get("argumentsFingerprint") != call.fingerprint:
            self._note("I-6", "a receipt is bound to other arguments", event["stepId"])
            return
        self._same_tool(call, event)
        self._received(call, 1, event)

    def _attempt(self, event: Event) -> None:
        call, number = self._call_of(event), event.get("attempt")
        if call is None:
            return
        if type(number) is not int or number < 2 or event.get("attemptId") != f"{call.key}#{number}":
            self._note("I-6", f"attempt {number!r} carries another key", event["stepId"])
            return
        before = call.key if number == 2 else f"{call.key}#{number - 1}"
        if event.get("previousReceiptId") != before or event.get("argumentsFingerprint") != call.fingerprint:
            self._note("I-6", f"attempt {number} is bound to another receipt or to other arguments", event["stepId"])
            return
        self._same_tool(call, event)
        self._received(call, number, event)

    def _received(self, call: _Call, attempt: int, event: Event) -> None:
        status, last = event.get("status"), call.status
        if status == "started":
            self._start(call, attempt, event["stepId"])
        elif attempt != (call.attempt or 1):
            self._note("I-12", f"{status!r} of attempt {attempt}; the last one is {call.attempt}", event["stepId"])
        elif call.settled and last != "committed":
            self._note("I-7", f"attempt {attempt} was settled as {call.settled}, then {status!r}", event["stepId"])
        elif call.answered and status != "committed":
            self._note("I-7", f"attempt {attempt} is {status!r} although it was answered", event["stepId"])
        elif (last == "" and status == "not_started") or (last == "started" and status in ("committed", "unknown")):
            call.attempt, call.status = attempt, status
            call.lost = event.get("persistence") == "withheld" if not call.answered else call.lost
            if status == "not_started":
                self._consent.obeyed(call.key)
        else:
            self._note("I-12", f"{status!r} of attempt {attempt} cannot follow {last or 'nothing'!r}", event["stepId"])

    def _start(self, call: _Call, attempt: int, step: str) -> None:
        """Promises 2 and 5: an attempt opens once, authorised, and only when the one before is known to be nothing."""
        if self.state != "running":
            self._begins("an attempt starts", step)
        self._consent.used(call.key, call.fingerprint, step)
        nothing = call.status == "not_started" or call.settled == "did_not_happen"
        if call.answered:
            self._note("I-12", f"attempt {attempt} starts although the call has its answer", step)
        elif attempt != call.attempt + 1:
            self._note("I-12", f"attempt {attempt} starts after attempt {call.attempt}", step)
        elif attempt > 1 and not nothing and not (call.again and call.open):
            self._note("I-12", f"attempt {attempt} starts although attempt {call.attempt} may have happened", step)
        call.attempt, call.status, call.settled, call.promised = attempt, "started", "", ""

    def _review(self, event: Event) -> None:
        call = self._keyed(event)
        if call is None:
            return
        attempt, outcome, step = event.get("attempt"), event.get("outcome"), event["stepId"]
        lost = call.lost and outcome == "happened"
        if type(attempt) is not int or attempt != call.attempt or attempt == 0:
            self._note("I-7", f"attempt {attempt!r} is settled; the last one is {call.attempt}", step)
        elif outcome not in _OUTCOMES:
            self._note("I-7", f"attempt {attempt} is settled as {outcome!r}", step)
        elif call.settled:
            self._note("I-7", f"attempt {attempt} was settled as {call.settled}, then as {outcome}", step)
        elif not (call.unsettled or lost) or (call.status == "committed" and outcome == "did_not_happen"):
            self._note("I-7", f"attempt {attempt} is settled as {outcome} although it is {call.stands}", step)
        elif event.get("resultRecorded") is True and "result" not in event:
            call.promised = outcome
        else:
            call.settled, call.promised = outcome, ""

    # What the agent was told.

    def _output(self, event: Event) -> None:
        step = event.get("stepId")
        if type(step) is not str:
            self._note("I-6", "an answer names no step", str(step))
            return
        call = self._calls.get(step)
        if call is None:
            self._done(step)
            return
        is_error = event.get("isError") is True
        if call.answered and not call.promised:
            self._note("I-7", "the call has its answer already", step)
            return
        if call.free and not is_error:
            self._consent.used(call.key, call.fingerprint, step)
        if not _explained(call, is_error, borrowed=type(event.get("heldBy")) is dict):
            self._note("I-7", f"an answer that nothing explains: the last attempt is {call.stands}", step)
        if call.promised:
            call.settled, call.promised = call.promised, ""
        call.answered, call.is_error, call.lost = True, is_error, "blob" in event

    def _done(self, step: str) -> None:
        """A turn is answered, or a step that is no call is done; what a child came to is kept as an answer is."""
        if self.state != "running" and step not in self._children:
            self._begins("a turn is answered or a step is done", step)
        turn = self._turns.get(step)
        if step in self._steps or (turn is not None and turn.answered):
            self._note("I-4", "the step has its answer already", step)
        elif turn is None:
            self._steps.add(step)
        elif turn.ended:
            self._note("I-5", "a turn is answered that is not open", step)
        else:
            turn.answered = True

    def _tool_result(self, event: Event) -> None:
        call = self._keyed(event)
        if call is None:
            return
        self._same_tool(call, event)
        if not call.answered or call.told:
            what = "the result is told twice" if call.told else "a result without an answer"
            self._note("I-7", what, event["stepId"])
        elif (event.get("isError") is True) != call.is_error:
            self._note("I-7", "the result contradicts the answer", event["stepId"])
        call.told = True

    # Who was asked.

    def _approval_required(self, event: Event) -> None:
        self._consent.required(event)

    def _approval_resolved(self, event: Event) -> None:
        self._consent.resolved(event)


def _explained(call: _Call, is_error: bool, *, borrowed: bool) -> bool:
    """Is there ground for this answer? What never happened has only an error to tell, or what another call was told.

    `borrowed`: it says whose answer it is, of the call that has its business key.
    """
    outcome = call.promised or call.settled
    if borrowed:
        return call.keyed and (call.status == "not_started" or outcome == "did_not_happen")
    if outcome:
        return outcome == "happened" or (outcome == "did_not_happen" and is_error)
    return call.status == "started" or call.free or (call.status == "not_started" and is_error)


_RULES: Final[dict[str, Callable[[Conduct, Event], None]]] = {
    "tool_call": Conduct._tool_call,
    "capability_resolved": Conduct._capability,
    "effect_receipt": Conduct._receipt,
    "tool_attempt": Conduct._attempt,
    "step_output": Conduct._output,
    "tool_result": Conduct._tool_result,
    "effect_review": Conduct._review,
    "agent_start": Conduct._agent_start,
    "turn_end": Conduct._turn_end,
    "agent_end": Conduct._agent_end,
    "approval_required": Conduct._approval_required,
    "approval_resolved": Conduct._approval_resolved,
}
