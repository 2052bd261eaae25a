"""Generated values that several tests share: JSON, legal and spoiled runs. What only one test needs stays beside it."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from clew.core import events
from clew.core.abort import admitted
from clew.core.calls import CallState
from clew.core.compose import Move, Saying
from clew.core.extensions import extension_lifecycle
from clew.core.guarding import checkpoint_of
from clew.core.loops import read_snapshot
from clew.core.records import Draft, Record
from clew.core.state import RunState
from clew.core.times import parse_ms
from clew.loop.machine import EventKind, LoopConfig, LoopEvent, begin, step
from tests.histories import (
    CHARGE,
    EDIT,
    LOOK,
    NEW,
    PAY,
    TOOLS,
    Scribe,
    approval,
    completed,
    decided,
    denied,
    facts,
    failed,
    kept,
    left,
    nothing_happened,
    paused,
    proposed,
    read,
    respoken,
    resume,
    returned,
    review,
    started,
    told,
)

# Every text that Python can hold, halves of emoji included; a high half is never followed by a low one, because
# the two would be one character.
texts = st.text(st.characters(exclude_categories=()), max_size=20).map(
    lambda text: text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts


def json_values(leaves: st.SearchStrategy[Any] = scalars) -> st.SearchStrategy[Any]:
    """Trees of builtins that JSON can hold."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
        max_leaves=20,
    )


# What may be said in one append, and a name for it.
Deed = tuple[str, Sequence[Saying]]


class History(NamedTuple):
    """One generated run: who wrote it, and what was done, by name."""

    scribe: Scribe
    deeds: tuple[str, ...]

    @property
    def data(self) -> bytes:
        return self.scribe.data

    @property
    def state(self) -> RunState:
        return self.scribe.state

    @property
    def records(self) -> list[Record]:
        return [record for record, _ in read(self.data)]


@st.composite
def histories(draw: st.DrawFn, max_deeds: int = 12) -> History:
    """Legal runs: turns, steps, calls of every kind, doubts, settlements, pauses, deaths, aborts and ends."""
    scribe, done = Scribe().born(), list[str]()
    for _ in range(draw(st.integers(0, max_deeds))):
        possible = list(deeds(scribe.state))
        if not possible:
            break
        name, sayings = draw(st.sampled_from(possible))
        scribe.say(*sayings)
        done.append(name)
    return History(scribe, tuple(done))


def deeds(state: RunState) -> Iterator[Deed]:
    """Appends that may legally follow, by name; none when there is nothing left to say."""
    leg = state.unclosed_leg
    if state.finish is None or leg is None:
        yield from _openings(state)
    if leg is None:
        return
    for call in state.unanswered():
        for name, said in _about(state, call):
            # What comes too late is counted in memory alone until the finish tells of it.
            yield name, admitted(state, said)[0] if state.aborting else said
    if leg.purpose == "settle":
        yield "leg ends", [events.leg_ended(leg.number)]
    elif state.state == "running":
        yield from _running(state)
    elif state.state == "aborting":
        yield "fails", failed()


def _openings(state: RunState) -> Iterator[Deed]:
    """A leg opens: the one before was closed, or its process died."""
    number = len(state.legs) + 1
    if state.unsettled():
        yield "settling leg", [resume(number, "settle")]
    if state.state == "paused":
        yield "resumes", [resume(number), Move("RESUME")]
    elif state.state == "running":
        yield "resumes after a death", [resume(number), Move("PAUSE", "process_interrupted"), Move("RESUME")]
    elif state.state == "aborting":
        yield "resumes to abort", [resume(number)]


def _running(state: RunState) -> Iterator[Deed]:
    number = len(state.calls) + len(state.approvals) + 1
    for capability in (PAY, CHARGE, EDIT):
        call = facts(number, capability)
        yield f"starts {call.tool}", started(call)
    yield "starts edit, kept", kept(facts(number, EDIT), expects={"a": NEW})
    yield "denied by policy", denied(facts(number))
    look = facts(number, LOOK)
    yield "looks", [*proposed(look)]
    yield "looks and sees", [*proposed(look), told(look, 1), events.tool_result(look, is_error=False)]
    yield from _asking(state, number)
    yield from _turns(state)
    yield from _looping(state)
    yield "step", [events.step_output(f"plan-{len(state.steps) + 1}", "1")]
    yield "an extension is told", [extension_lifecycle("guard", "1.0", "before-model", "succeeded", 1)]
    yield "pauses", paused()
    yield "aborts", [Move("REQUEST_ABORT", "asked")]
    if not state.unsettled() and state.agent_end is None:
        yield "completes", completed()


def _asking(state: RunState, number: int) -> Iterator[Deed]:
    waiting = [asked for asked in state.approvals.values() if not asked.decision]
    if not waiting:
        yield "asks a person", [approval(facts(number), f"a{number}"), *paused("approval_required")]
        return
    name = waiting[0].approval_id
    call = facts(int(waiting[0].call_id[1:]))
    yield "allowed", [decided(name)]
    yield "allowed and starts", [decided(name), *started(call)]
    refused = [decided(name, "deny"), *proposed(call), events.effect_receipt(call, "not_started")]
    yield "denied by a person", [*refused, *paused("approval_required")]


def _turns(state: RunState) -> Iterator[Deed]:
    waiting = [turn for turn in state.turns.values() if turn.answer is None]
    if not waiting:
        yield "turn begins", [events.agent_start(f"turn-{len(state.turns) + 1}", "f" * 64)]
        return
    turn = waiting[0].turn_id
    yield "turn begins again", [events.agent_start(turn, "f" * 64)]
    yield "turn answers", [events.step_output(turn, '"hi"'), events.turn_end(turn, None)]
    yield "turn answers, measured", [events.step_output(turn, '"hi"'), events.turn_end(turn, {"tokens": 7})]


def _looping(state: RunState) -> Iterator[Deed]:
    """A loop begins, or goes one phase on; its checks never pass."""
    at = begin(state.run_id, state.start["configFingerprint"]) if state.loop is None else read_snapshot(state.loop)
    event = LoopEvent(_ROUND[at.phase])
    yield f"loop, {at.phase}", [Draft("loop", step(at, event, LoopConfig(max_iterations=99, max_repairs=99)).as_json())]


_ROUND: dict[str, EventKind] = {
    "idle": "START", "executing": "EXECUTED", "verifying": "REJECTED", "repairing": "REPAIRED",
}  # fmt: skip


def _about(state: RunState, known: CallState) -> Iterator[Deed]:
    """What may be said of a call that is recorded already."""
    call, attempt = facts(int(known.call_id[1:]), TOOLS[known.tool]), known.attempt
    leg = state.legs[-1]
    if known.status == "started" and known.review is None and known.started_ms >= (parse_ms(leg.opened_at) or 0):
        yield "returns", returned(call, attempt)
        yield "returns, not kept", [events.receipt(call, attempt, "committed", persistence="failed")]
        yield "returns, secret", [events.receipt(call, attempt, "committed", persistence="withheld")]
        yield "is in doubt", [events.receipt(call, attempt, "unknown")]
        if checkpoint_of(state, known) is not None:
            answer, *rest = returned(call, attempt)
            yield "returns, looked at", [answer, rest[0], left(call, attempt), rest[1]]
            yield "is in doubt, looked at", [events.receipt(call, attempt, "unknown"), left(call, attempt)]
        yield "knows that nothing happened", nothing_happened(call, attempt)
    if known.unsettled:
        yield from _settlements(state, known, call)
    if state.state != "running" or leg.purpose == "settle":
        return
    if call.capability.free:
        yield "sees", [told(call, 1), events.tool_result(call, is_error=False)]
    review_given = known.settled_by
    again = known.open and call.capability.replay == "idempotent"
    if again or known.status == "not_started" or (review_given and review_given.outcome == "did_not_happen"):
        yield "starts again", started(call, attempt + 1)
        yield "starts again, kept", kept(call, attempt + 1)


def _settlements(state: RunState, known: CallState, call: events.CallFacts) -> Iterator[Deed]:
    attempt = known.attempt
    yield "happened, nobody knows what it returned", [review(call, "happened", attempt)]
    yield "given up", [review(call, "give_up", attempt)]
    if known.status != "committed":
        yield "did not happen", [review(call, "did_not_happen", attempt)]
    if state.finish is not None:
        yield "happened, after the end", [review(call, "happened", attempt, result_recorded=True, result=None)]
        return
    yield "happened", [review(call, "happened", attempt, result_recorded=True), told(call)]
    yield "happened, its result torn off", [review(call, "happened", attempt, result_recorded=True)]


SPOILT: tuple[Any, ...] = (None, True, 0, 2, -1, "", "x", "started", "committed", "happened", [], {})


@st.composite
def spoiled(draw: st.DrawFn) -> list[tuple[Record, int]]:
    """Runs of which one record is lost, repeated, moved or edited, numbered and chained as if that were right."""
    records = draw(histories()).records
    place = draw(st.integers(0, len(records) - 1))
    deed = draw(st.sampled_from(["lose", "repeat", "move", "edit"]))
    if deed == "edit":
        said = records[place].payload
        said = said["event"] if records[place].kind == "event" else said
        said[draw(st.sampled_from(sorted(said)))] = draw(st.sampled_from(SPOILT))
        return respoken(records)
    record = records[place] if deed == "repeat" else records.pop(place)
    if deed != "lose":
        records.insert(draw(st.integers(0, len(records))), record)
    return respoken(records)
