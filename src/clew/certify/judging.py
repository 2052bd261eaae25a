"""What one life says about the agent, beside the life without a death: findings, each with a code and words. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from clew.certify.lives import COMPLETED, NO_END, Lived
from clew.certify.orders import Entry
from clew.core.answers import json_text
from clew.core.invariants import check

WORDS: Final = 160
_PLACE: Final = re.compile(r"0x[0-9a-f]{6,}")

MEANINGS: Final = {
    "answer_doubled": "an answer stands twice in the journal",
    "answer_lost": "a call has no answer, and the run is completed",
    "calls_diverged": "after a death the agent asks for something else than before",
    "capability_undeclared": "a tool says nothing of its effect, or is not declared with the agent",
    "died": "the process ended by itself",
    "effect_lost": "an effect happened less often than without a death",
    "effect_repeated": "an effect happened more often than without a death",
    "error_swallowed": "an effect did not happen, and the agent ends as if it had",
    "free_tool_writes": "a tool of effect none changes the world",
    "journal_contradicts": "the journal breaks an invariant",
    "network_past_gate": "the agent, or a workspace tool, reaches the network outside of an external tool",
    "no_end": "the run comes to no end",
    "not_completed": "the run does not complete even without a death",
    "other_end": "after a death the run ends otherwise",
    "other_output": "after a death the agent's output is another one",
    "past_gate": "a tool is called directly, not by run.call",
    "probe_writes": "a probe changes something",
    "probe_wrong": "a probe says what is not so",
    "process_left": "a process lives on behind the run",
    "result_not_json": "a result is no JSON and is kept as its repr",
    "unsettleable": "an effect stays open although it was said what happened",
    "writes_outside": "something outside of the workspace is written to",
}
"""Every code of a finding, in words."""


class Finding(msgspec.Struct, frozen=True):
    """What must not be: its code, what was seen, and of which call, tool or agent."""

    code: str
    what: str
    where: str = ""


class Usual(msgspec.Struct, frozen=True):
    """The life without a death. `steady`: another one like it did the same and said the same."""

    outcome: str
    output: Any
    deeds: dict[str, int]
    steady: bool


def usual(whole: Lived, again: Lived) -> Usual:
    """What is usual, from two lives without a death."""
    steady = (deeds(whole), _output(whole), whole.outcome) == (deeds(again), _output(again), again.outcome)
    return Usual(whole.outcome, _output(whole), dict(deeds(whole)), steady)


def deeds(lived: Lived) -> Counter[str]:
    """What happened, each deed with how often; what is repeated under a key that the other side knows counts once."""
    found: Counter[str] = Counter()
    once: set[tuple[str, str]] = set()
    for entry in _happened(lived):
        deed = _deed(lived, entry)
        if entry.key and entry.replay == "idempotent":
            if (entry.key, deed) in once:
                continue
            once.add((entry.key, deed))
        found[deed] += 1
    return found


def judge(lived: Lived, whole: Usual) -> list[Finding]:
    """All that must not be in one life."""
    found = [*_seen(lived), *_ended(lived, whole), *_left(lived), *_journal(lived), *_repeated(lived)]
    if lived.point.fails:
        found += _swallowed(lived, whole)
    elif whole.steady and not hindered(lived):
        found += _compared(lived, whole)
    return list(dict.fromkeys(found))


def first_look(whole: Lived, declared: Iterable[str]) -> list[Finding]:
    """What is wrong without any death: the end, and tools that leave unsaid what they do."""
    found = []
    if whole.outcome != COMPLETED and not hindered(whole):
        detail = f": {whole.detail}" if whole.detail else ""
        found.append(Finding("not_completed", _clean(whole, f"without a death it ends as {whole.outcome}{detail}")))
    called = {} if whole.state is None else {call.tool: call.capability for call in whole.state.calls.values()}
    for tool, capability in sorted(called.items()):
        if capability is not None and capability.source == "inferred":
            said = f"{tool} says nothing of its effect: what dies in doubt waits for a person"
            found.append(Finding("capability_undeclared", said, tool))
        elif tool not in declared:
            said = f"{tool} is not declared with the agent, so no plan knows it"
            found.append(Finding("capability_undeclared", said, tool))
    return found


def hindered(lived: Lived) -> bool:
    """Was anything refused in it? Then all that follows may be for that alone."""
    return any(entry.did == "found" and entry.what.endswith("refused") for entry in lived.entries)


def _happened(lived: Lived) -> Iterator[Entry]:
    return (entry for entry in lived.entries if entry.did == "happened")


def _deed(lived: Lived, entry: Entry) -> str:
    return f"{entry.tool} {_short(lived, entry.arguments)}"


def _short(lived: Lived, value: Any) -> str:
    return _clean(lived, json_text(value))[:WORDS]


def _clean(lived: Lived, text: str) -> str:
    """Without the run's id, the scratch folder and the places of objects, which are others in each life."""
    plain = text.replace(lived.work, "WORKSPACE") if lived.work else text
    return _PLACE.sub("0x…", plain.replace(lived.run_id, "RUN"))


def _output(lived: Lived) -> Any:
    return None if lived.output is None else _clean(lived, json_text(lived.output))


def _seen(lived: Lived) -> Iterator[Finding]:
    for entry in lived.entries:
        if entry.did == "found":
            yield Finding(entry.code, _clean(lived, entry.what), entry.tool)


def _ended(lived: Lived, whole: Usual) -> Iterator[Finding]:
    """An end that the death brought about."""
    if lived.point.fails or lived.outcome in (COMPLETED, whole.outcome):
        return
    detail = f": {lived.detail}" if lived.detail else ""
    if lived.outcome == "unanswered" and lived.unanswered is not None:
        asked = f"{lived.unanswered.tool} {_short(lived, lived.unanswered.arguments)}"
        yield Finding("calls_diverged", f"after a death it asks for what it never asked before: {asked}")
    elif lived.outcome == "paused: resume_divergence":
        yield Finding("calls_diverged", f"its calls are others after a death ({lived.outcome.partition(' ')[2]})")
    elif lived.outcome in (NO_END, "too late"):
        yield Finding("no_end", f"it comes to no end in {lived.legs} processes ({lived.outcome})")
    elif lived.outcome == "died":
        yield Finding("died", lived.detail)
    elif lived.state is not None and lived.state.unsettled():
        call = lived.state.unsettled()[0]
        yield Finding("unsettleable", _clean(lived, f"{call.tool} stays open: {lived.outcome}{detail}"), call.step_id)
    elif not hindered(lived):
        yield Finding(
            "other_end", _clean(lived, f"it ends as {lived.outcome}{detail}; without a death: {whole.outcome}")
        )


def _left(lived: Lived) -> Iterator[Finding]:
    for words in lived.left:
        # Without its number and time, which differ from life to life.
        yield Finding("process_left", f"a process lives on: {words.partition('(')[2].partition(')')[0] or words}")


def _journal(lived: Lived) -> Iterator[Finding]:
    for one in check(lived.records):
        yield Finding("journal_contradicts", _clean(lived, f"{one.subject}: {one.what} [{one.label}]"))
    events = [record.payload["event"] for record in lived.records if record.kind == "event"]
    told = Counter(event["stepId"] for event in events if event["type"] == "step_output")
    for step, count in told.items():
        if count > 1:
            yield Finding("answer_doubled", f"the answer of {step} stands {count} times in the journal", step)
    if lived.outcome == COMPLETED and lived.state is not None:
        for call in lived.state.calls.values():
            if call.answer is None and call.settled_by is None and call.persistence != "withheld" and call.status:
                yield Finding("answer_lost", f"{call.step_id} has no answer, and the run is completed", call.step_id)


def _repeated(lived: Lived) -> Iterator[Finding]:
    """The same effect twice under one key: whatever the agent is like, this must not be."""
    runs: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in _happened(lived):
        if entry.key and entry.replay != "idempotent":
            runs[entry.key].append(entry)
    for key, entries in runs.items():
        if len(entries) > 1:
            said = f"{_deed(lived, entries[0])} happened more than once under one key"
            yield Finding("effect_repeated", said, _clean(lived, key))


def _compared(lived: Lived, whole: Usual) -> Iterator[Finding]:
    """What happened, beside what happens without a death."""
    found = deeds(lived)
    for deed, count in found.items():
        if count > whole.deeds.get(deed, 0):
            said = f"{deed} happened more often than without a death ({_times(whole.deeds.get(deed, 0))})"
            yield Finding("effect_repeated", said, deed.partition(" ")[0])
    if not lived.outcome == whole.outcome == COMPLETED:
        return
    for deed, count in whole.deeds.items():
        if found[deed] < count:
            said = f"{deed} happened less often than without a death ({_times(count)})"
            yield Finding("effect_lost", said, deed.partition(" ")[0])
    if _output(lived) != whole.output:
        yield Finding("other_output", f"its output is another one after a death: {str(_output(lived))[:WORDS]}")


def _swallowed(lived: Lived, whole: Usual) -> Iterator[Finding]:
    """An effect that was refused, an end as if it had happened, and nothing done about it."""
    refused = [entry for entry in lived.entries if entry.did == "refused"]
    if not refused or lived.outcome != COMPLETED or whole.outcome != COMPLETED:
        return
    deed, now = _deed(lived, refused[0]), deeds(lived)
    if now[deed] < whole.deeds.get(deed, 0) and _output(lived) == whole.output and not now - Counter(whole.deeds):
        yield Finding(
            "error_swallowed", f"{deed} did not happen, and the agent ends with the same output as if it had",
            refused[0].tool,
        )  # fmt: skip


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
