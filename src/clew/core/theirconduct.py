"""What calls, turns and approvals may do in a journal that clew did not begin: contract #224 to #232, with its excuses.

Ours are judged in `conduct`; what of such a journal matters to a plan stands in `foreign`.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from clew.core.findings import Slip

Event = dict[str, Any]
_MAY_FOLLOW: Final = {"": ("not_started", "started"), "started": ("committed", "unknown")}
_EXCUSED: Final = ("aborted", "timeout")


class _Call:
    """One call, and how often its end was told."""

    __slots__ = ("call_id", "failed", "free", "key", "line", "returned", "sequence", "step")

    def __init__(self, step: str, call_id: str, key: str, line: int, sequence: int) -> None:
        self.step, self.call_id, self.key, self.line, self.sequence = step, call_id, key, line, sequence
        self.free = False
        self.failed = self.returned = 0


class _Receipts:
    """What the receipts of one key say: the last status, how many ends, and where the first one stands."""

    __slots__ = ("ends", "line", "sequence", "status")

    def __init__(self, line: int, sequence: int) -> None:
        self.status, self.ends, self.line, self.sequence = "", 0, line, sequence


class TheirConduct:
    """The calls, turns, steps and approvals of one run of another program.

    Attributes:
        state: The operation's state, as its last record says.
        agent_ended: Not asked for here.
    """

    __slots__ = (
        "_aborted", "_begun", "_calls", "_implicit", "_known", "_note_at", "_open", "_receipts", "_run_id", "_slip",
        "_started", "_turn", "_waiting", "agent_ended", "state",
    )  # fmt: skip

    def __init__(self, run_id: str, slip: Slip) -> None:
        self._run_id = run_id
        self._slip = slip
        self._calls: dict[tuple[str, str], _Call] = {}
        self._receipts: dict[str, _Receipts] = {}
        self._waiting: dict[str, tuple[int, int]] = {}
        self._started: set[str] = set()
        # The turn that runs, the one that tools may still speak of, all that ran, those that did when it was aborted.
        self._turn = self._open = ""
        self._known: set[str] = set()
        self._aborted: frozenset[str] | None = None
        self._implicit = False
        self.state = "accepted"
        self.agent_ended = True

    def see(self, event: Event) -> None:
        """Judge one event and take it in."""
        if self._aborted is None and self.state == "aborting":
            self._aborted = frozenset(self._known)
        kind = event["type"]
        if self._aborted is not None and self._late(kind, event):
            self._slip.note("I-10", f"{kind} after an abort was asked for", _text(event, "callId"))
        rule = _RULES.get(kind)
        if rule is not None:
            rule(self, event)

    def _late(self, kind: str, event: Event) -> bool:
        if kind == "effect_receipt":
            told = event.get("status") not in (None, "not_started")
            return told and _text(event, "turnId") not in (self._aborted or ())
        return kind in ("tool_result", "turn_end")

    def keys(self) -> Iterator[tuple[str, str]]:
        """Call id and key of every call."""
        return ((call.call_id, call.key) for call in self._calls.values())

    def doubt(self) -> None:
        """Only we record such a thing."""

    def delegate(self, step: object) -> None:
        """Their children are not judged."""

    def end(self, status: object) -> None:
        """The journal is at its end; without a finish (`status` is None) nothing has to have ended yet."""
        keys = {call.key for call in self._calls.values()}
        for key, seen in self._receipts.items():
            if key not in keys:
                self._slip.note_at(seen.line, seen.sequence, "I-6", "receipts without a call", key)
        for call in self._calls.values():
            ends = self._ends(call)
            if ends > 1 or (ends == 0 and status is not None and status not in _EXCUSED):
                self._slip.note_at(call.line, call.sequence, "I-7", f"the call has {ends} ends", call.key)
        for name, (line, sequence) in self._waiting.items() if status is not None else ():
            self._slip.note_at(line, sequence, "I-9", "nobody decided", name)

    def _ends(self, call: _Call) -> int:
        seen = self._receipts.get(call.key)
        if seen is not None and seen.ends:
            return seen.ends
        return call.failed or (call.returned if call.free else 0)

    # Turns and steps.

    def _agent_start(self, event: Event) -> None:
        turn = _text(event, "turnId")
        if turn:
            self._turn = self._open = turn
            self._known.add(turn)
            self._implicit = False

    def _text_delta(self, event: Event) -> None:
        self._implicit = self._implicit or not self._turn

    def _turn_end(self, event: Event) -> None:
        turn = _text(event, "turnId")
        if not turn:
            return
        if self._turn != turn and (self._turn or not self._implicit):
            self._slip.note("I-5", "a turn ends that is not the one that runs", turn)
            return
        self._turn, self._open, self._implicit = "", turn, False
        self._known.add(turn)

    def _in_turn(self, event: Event) -> None:
        """A tool's event belongs to the open turn; old traces name none."""
        turn = _text(event, "turnId")
        if turn and turn != self._open:
            self._slip.note("I-5", f"{event['type']} of a turn that is not open", turn)

    def _step_start(self, event: Event) -> None:
        step = _text(event, "stepId")
        if step in self._started and (step != "loop-execute" or self._known):
            self._slip.note("I-4", "the step starts a second time", step)
        self._started.add(step)

    # Calls and receipts.

    def _key(self, event: Event) -> str:
        parts = (self._run_id, _text(event, "stepId"), _text(event, "callId"))
        return ":".join(part for part in parts if part)

    def _derived(self, event: Event) -> None:
        """A call's key, where it has one, follows from run, step and call."""
        if _text(event, "idempotencyKey") not in ("", self._key(event)):
            self._slip.note("I-6", "the key does not follow from run, step and call", _text(event, "callId"))

    def _tool_call(self, event: Event) -> None:
        self._in_turn(event)
        step, call_id = _text(event, "stepId"), _text(event, "callId")
        if call_id:
            self._derived(event)
            key = _text(event, "idempotencyKey") or self._key(event)
            at = (self._slip.line, self._slip.sequence)
            self._calls.setdefault((step, call_id), _Call(step, call_id, key, *at))

    def _capability(self, event: Event) -> None:
        call = self._calls.get((_text(event, "stepId"), _text(event, "callId")))
        if call is not None:
            call.free = event.get("recoveryDisposition") == "replay_safe"

    def _tool_result(self, event: Event) -> None:
        self._in_turn(event)
        self._derived(event)
        call = self._calls.get((_text(event, "stepId"), _text(event, "callId")))
        if call is not None:
            call.failed += event.get("isError") is True
            call.returned += event.get("isError") is not True

    def _receipt(self, event: Event) -> None:
        key, step, status = _text(event, "idempotencyKey"), _text(event, "stepId"), event.get("status")
        self._in_turn(event)
        if status is None:
            return
        if not key.startswith(f"{self._run_id}:{step}:" if step else f"{self._run_id}:"):
            self._slip.note("I-6", "the key does not follow from run and step", key)
        seen = self._receipts.setdefault(key, _Receipts(self._slip.line, self._slip.sequence))
        if status not in _MAY_FOLLOW.get(seen.status, ()):
            self._slip.note("I-12", f"{status!r} cannot follow {seen.status or 'nothing'!r}", key)
        seen.ends += status != "started"
        seen.status = str(status)

    # Approvals.

    def _approval_required(self, event: Event) -> None:
        name = _text(event, "approvalId")
        if not name or name in self._waiting or event.get("runId") != self._run_id:
            self._slip.note("I-9", "the question is asked twice, or of another run", name)
        else:
            self._waiting[name] = (self._slip.line, self._slip.sequence)

    def _approval_resolved(self, event: Event) -> None:
        name = _text(event, "approvalId")
        if self._waiting.pop(name, None) is None or event.get("runId") != self._run_id:
            self._slip.note("I-9", "a decision on a question that is not open", name)


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    return value if type(value) is str else ""


_RULES: Final[dict[str, Callable[[TheirConduct, Event], None]]] = {
    "agent_start": TheirConduct._agent_start,
    "text_delta": TheirConduct._text_delta,
    "turn_end": TheirConduct._turn_end,
    "step_start": TheirConduct._step_start,
    "tool_call": TheirConduct._tool_call,
    "capability_resolved": TheirConduct._capability,
    "tool_result": TheirConduct._tool_result,
    "effect_receipt": TheirConduct._receipt,
    "approval_required": TheirConduct._approval_required,
    "approval_resolved": TheirConduct._approval_resolved,
}
