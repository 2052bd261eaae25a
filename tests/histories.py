"""A scribe that writes whole runs by `compose` alone, and ways to read them back. Chance belongs to `strategies`."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clew.core import approvals, events, guarding
from clew.core.answers import Answer, ErrorAnswer, inline, json_text
from clew.core.book import Book
from clew.core.canon import fingerprint
from clew.core.capability import Capability, resolve
from clew.core.chain import genesis
from clew.core.checkpoint import PathState
from clew.core.codec import LineReader, encode_append
from clew.core.compose import Close, Composed, Move, Saying, compose
from clew.core.events import CallFacts, Event
from clew.core.folding import fold
from clew.core.ids import effect_key
from clew.core.needs import Guarded, Looked
from clew.core.outcome import Outcome
from clew.core.records import Draft, Record
from clew.core.resume import Facts, prepare_run_resume
from clew.core.state import RunState
from clew.core.times import format_ms

RUN = "01JD4KQ7Z8"
BORN_MS = 1_795_960_800_000  # 2026-11-29T14:00:00.000Z
EXAMPLES = sorted((Path(__file__).parent / "journals").glob("*.jsonl"))
CONFIG = {"agent": "a" * 64, "config": "c" * 64, "policy": "e" * 64}

PAY = resolve("pay", "external")
CHARGE = resolve("charge", "external", "idempotent")
EDIT = resolve("edit", "workspace", "idempotent")
LOOK = resolve("look", "none")
TOOLS = {capability.tool: capability for capability in (PAY, CHARGE, EDIT, LOOK)}


def owner(number: int, purpose: str = "run") -> dict[str, Any]:
    """The member `leg` of a start or resume."""
    return {
        "number": number, "nonce": f"n{number}", "purpose": purpose, "host": "vm", "machineId": "m-7d31",
        "bootId": "5f0c2c1e", "pid": 811 + number, "startTick": 918273, "pidNamespace": "4026531836", "user": "ann",
        "version": "0.1.0",
    }  # fmt: skip


def start(**changes: Any) -> Draft:
    """The first record of a run."""
    payload = {
        "configName": "orders", "schemaVersion": 1, "configFingerprint": fingerprint(CONFIG),
        "initialPrompt": "settle order 1042", "operationId": "op-1", "leg": owner(1), "configParts": CONFIG,
    }  # fmt: skip
    return Draft("start", {**payload, **changes})


def resume(number: int, purpose: str = "resume", **members: Any) -> Draft:
    """The first record of a later leg."""
    return Draft("resume", {"completedStepIds": [], "resumedAt": "-", "leg": owner(number, purpose), **members})


def facts(number: int = 1, capability: Capability = PAY, *, run_id: str = RUN, turn: str = "turn-0") -> CallFacts:
    """Who the n-th call of a run is."""
    step, call = f"{capability.tool}-{number}", f"c{number}"
    return CallFacts(
        run_id=run_id, step_id=step, call_id=call, key=effect_key(run_id, step, call), tool=capability.tool,
        turn_id=turn, fingerprint=fingerprint(arguments(number)), capability=capability,
    )  # fmt: skip


def arguments(number: int = 1) -> dict[str, Any]:
    return {"order": number}


def proposed(call: CallFacts) -> list[Event]:
    """Stage 1 of a call."""
    return [events.tool_call(call, arguments(int(call.call_id[1:]))), events.capability_resolved(call)]


def started(call: CallFacts, attempt: int = 1) -> list[Event]:
    """The append that opens an attempt."""
    return [*(proposed(call) if attempt == 1 else []), events.receipt(call, attempt, "started")]


def told(call: CallFacts, value: Any = None) -> Event:
    """The answer of a call, as its event."""
    return inline(call.step_id, Answer(value), json_text(value))


def returned(call: CallFacts, attempt: int = 1, value: Any = None) -> list[Event]:
    """Stage 7: the answer, `committed`, and the note that there is an answer."""
    return [told(call, value), events.receipt(call, attempt, "committed"), events.tool_result(call, is_error=False)]


OLD = PathState("file", "a" * 64, 3, 0o644)
NEW = PathState("file", "b" * 64, 4, 0o644)


def kept(call: CallFacts, attempt: int = 1, **guarded: Any) -> list[Saying]:
    """The append that opens an attempt whose paths are kept."""
    *proposal, start = started(call, attempt)
    return [*proposal, guarding.kept(call, attempt, Guarded(**{"paths": {"a": OLD}, **guarded})), start]


def left(call: CallFacts, attempt: int = 1, **looked: Any) -> Saying:
    """How an attempt left its paths."""
    return guarding.left(call, attempt, Looked(**{"after": {"a": NEW}, **looked}))


def nothing_happened(call: CallFacts, attempt: int = 1) -> list[Event]:
    """Stage 7' of a tool that knows that its effect did not happen."""
    return [
        events.receipt(call, attempt, "unknown"),
        review(call, "did_not_happen", attempt, source="tool", by=call.tool),
        *refusal(call, "nothing_happened"),
    ]


def denied(call: CallFacts) -> list[Event]:
    """Stage 2: the policy says no."""
    not_started = events.effect_receipt(call, "not_started")
    return [*proposed(call), events.policy_denied(call, "no"), not_started, *refusal(call, "denied")]


def refusal(call: CallFacts, kind: str) -> list[Event]:
    """An error answer."""
    answer = inline(call.step_id, Answer(None, ErrorAnswer(kind, "no")), "null")
    return [answer, events.tool_result(call, is_error=True)]


def review(call: CallFacts, outcome: Any, attempt: int = 1, **changes: Any) -> Event:
    """A settlement by a person."""
    said: dict[str, Any] = {
        "step_id": call.step_id, "call_id": call.call_id, "key": call.key, "attempt": attempt, "review_id": "",
        "outcome": outcome, "source": "operator", "by": "ann", "reason": "looked", "evidence": [],
        "result_recorded": False,
    }  # fmt: skip
    return events.effect_review(**{**said, **changes})


def approval(call: CallFacts, name: str = "a1", **how: Any) -> Event:
    """A question to a person, before the call is recorded."""
    return {**approvals.approval_required(call, arguments(int(call.call_id[1:])), **how), "approvalId": name}


def decided(name: str = "a1", decision: str = "allow", **changes: Any) -> Event:
    """A person's decision."""
    said = {"source": "operator", "by": "ann", "reason": "looked", "at": format_ms(BORN_MS)}
    return {"type": "approval_resolved", "approvalId": name, "runId": RUN, "decision": decision, **said, **changes}


def paused(reason: str = "pause_requested") -> list[Saying]:
    """The run pauses and its leg closes."""
    return [Move("PAUSE", reason), Close("pause", Outcome("paused", reason))]


def failed(reason: str = "aborted") -> list[Saying]:
    """The run ends without success."""
    return [Move("FAIL", reason), Close("finish", Outcome("failed", reason))]


def completed(output: Any = "done") -> list[Saying]:
    """The agent returned and the run completes."""
    return [events.agent_end(output), Move("COMPLETE"), Close("finish", Outcome("succeeded", "completed"))]


class Scribe:
    """Writes one run, an append at a time, as a leg does. `data` is the journal's file, `state` what is durable."""

    def __init__(self, run_id: str = RUN) -> None:
        self.state = RunState(run_id)
        self.data = b""
        self.at_ms = BORN_MS
        self.appends: list[Composed] = []
        self._count = 0

    def new_id(self) -> str:
        self._count += 1
        return f"n-{self._count}"

    def compose(self, *sayings: Saying) -> Composed:
        """What would be appended; nothing changes."""
        at = format_ms(self.at_ms)
        return compose(self.state, sayings, at=at, new_id=self.new_id, size_bytes=len(self.data))

    def say(self, *sayings: Saying) -> Composed:
        """Append, then apply."""
        composed = self.compose(*sayings)
        self.data += composed.batch.data
        self.state.merge(composed.state)
        self.appends.append(composed)
        self.at_ms += 1000
        return composed

    def born(self) -> "Scribe":
        """The first append: the run is accepted and runs."""
        self.say(start(), Move("ACCEPT"), Move("START"))
        return self

    def opened(self, purpose: str = "resume", *sayings: Saying) -> "Scribe":
        """A later leg."""
        self.say(resume(len(self.state.legs) + 1, purpose), *sayings)
        return self

    def ahead(self) -> "Scribe":
        """Another scribe at the same place, on a fork; what it writes, this one does not know."""
        other = Scribe(self.state.run_id)
        other.state, other.data, other.at_ms, other._count = self.state.fork(), self.data, self.at_ms, self._count
        return other


def after(*appends: Sequence[Saying]) -> Scribe:
    """A run in which this was said."""
    scribe = Scribe().born()
    for sayings in appends:
        scribe.say(*sayings)
    return scribe


def read(data: bytes, run_id: str = RUN) -> list[tuple[Record, int]]:
    """Records of a whole journal, each with its position."""
    reader, found, at = LineReader(run_id), list[tuple[Record, int]](), 0
    for line in data.splitlines(keepends=True):
        found.append((reader.feed(line.removesuffix(b"\n")), at))
        at += len(line)
    return found


def refold(data: bytes, run_id: str = RUN) -> RunState:
    """The state that another process would find."""
    return fold(read(data, run_id), run_id)


def prefixes(data: bytes) -> Iterator[bytes]:
    """The journal after each of its lines, the whole one last."""
    lines = data.splitlines(keepends=True)
    return (b"".join(lines[:count]) for count in range(1, len(lines) + 1))


def view(state: RunState) -> dict[str, Any]:
    """All that a state knows, to be compared."""
    members = {name: getattr(state, name) for name in RunState.__slots__}
    return {name: list(value.items()) if isinstance(value, Book) else value for name, value in members.items()}


def foreign(*payloads: tuple[str, dict[str, Any]], run_id: str = "run-1") -> list[tuple[Record, int]]:
    """Records of a journal that another program began: no chain, no leg."""
    time = format_ms(BORN_MS)
    return [
        (Record(1, run_id, number, msgspec.UNSET, time, kind, payload), number)  # type: ignore[arg-type]  # any word
        for number, (kind, payload) in enumerate(payloads, 1)
    ]


class Call(NamedTuple):
    """What the lines of a journal say of one call, by another hand."""

    key: str
    tool: str
    status: str
    attempt: int
    answered: bool
    settled: str

    @property
    def open(self) -> bool:
        return self.status in ("started", "unknown") and not self.settled and not self.answered

    @property
    def unsettled(self) -> bool:
        return not self.answered and not self.settled and self.status in ("started", "unknown", "committed")


def naive_calls(records: Iterable[Record]) -> dict[str, Call]:
    """Calls by step id, read from a journal of ours with nothing but dictionaries."""
    found: dict[str, dict[str, Any]] = {}
    for event in (record.payload["event"] for record in records if record.kind == "event"):
        call = found.get(event.get("stepId"))
        if event["type"] == "tool_call":
            found[event["stepId"]] = {"key": event["idempotencyKey"], "tool": event["tool"], "status": "", "attempt": 0}
        elif call is not None and event["type"] in ("effect_receipt", "tool_attempt"):
            call.update(status=event["status"], attempt=event.get("attempt", 1))
            if event["status"] == "started":
                call.pop("review", None)
        elif call is not None and event["type"] == "effect_review":
            call["review"] = event
        elif call is not None and event["type"] == "step_output":
            call["answered"] = True
    return {step: _judged(call) for step, call in found.items()}


def _judged(call: dict[str, Any]) -> Call:
    said = call.get("review", {})
    given = not said.get("resultRecorded") or "result" in said or call.get("answered", False)
    settled = said.get("outcome", "") if given else ""
    return Call(call["key"], call["tool"], call["status"], call["attempt"], call.get("answered", False), settled)


def overconfident(data: bytes, run_id: str = RUN) -> list[str]:
    """Decisions of the plan of this journal that nothing in it proves; no tool is offered, so no probe can help."""
    state = refold(data, run_id)
    if state.ended or state.finish is not None:
        return []
    plan = {step.step_id: step.decision for step in prepare_run_resume(state, None, Facts(at_ms=0)).steps}
    naive = naive_calls(record for record, _ in read(data, run_id))
    return [f"{step}: {plan[step]} of {call}" for step, call in naive.items() if not _proved(plan[step], call)]


def _proved(decision: str, call: Call) -> bool:
    """Does what is known of a call allow this decision?"""
    if decision == "skip":
        return call.answered or call.settled == "happened"
    if decision == "run":
        return call.status in ("", "not_started") or (call.settled == "did_not_happen" and call.status != "committed")
    if decision == "fail":
        return call.settled == "give_up"
    return decision in ("review", "wait", "probe")


def respoken(records: list[Record], run_id: str = RUN) -> list[tuple[Record, int]]:
    """The same sayings as a whole journal: numbered and chained anew, so that only their meaning can be wrong."""
    told = (record.payload for record in records if record.kind == "event")
    for number, envelope in enumerate(told, 1):
        envelope["sequence"] = number
    batch = encode_append(
        run_id,
        after=0,
        chain=genesis(run_id),
        drafts=[Draft(record.kind, record.payload) for record in records],
        timestamp=format_ms(BORN_MS),
        event_ids=[f"n-{number}" for number in range(len(records))],
    )
    return [(record, number) for number, record in enumerate(batch.records)]
