"""What one life of an agent says about it, compared with the life without a crash: findings, in words. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from clew.core.records import Batch, Record
from clew.runtime.tools import Agent
from clew.testing.lives import COMPLETED, NEEDS_A_PERSON, NO_END, Kill, Lived
from clew.testing.watching import Ran

_DIGESTS: Final = re.compile(r" with arguments [0-9a-f]{12}")


@dataclass(frozen=True)
class Point:
    """One life: where it was cut, how it ended, and what was found.

    Attributes:
        name: `no crash`, `before:7`, `torn:7:1` (in the first of the places in that append) or `after:7`.
        told: The same in words, with what the append said.
        outcome: `completed`, `needs a person`, `failed: …`, `paused: …`, `no end` or `refused: …` with a code.
        detail: What clew said of that outcome, if anything.
        output: What the agent returned; None unless completed.
        findings: What must not be.
        legs: How many processes worked on it.
        struck: Did it come to the crash at all? Agents that do things side by side may append less another time.
        ran: Every run of a tool's body through the gate, in order.
        journal: Its journal's bytes; in a file they can be looked at with `clew show`.
    """

    name: str
    told: str
    outcome: str
    detail: str
    output: Any
    findings: tuple[str, ...]
    legs: int
    struck: bool
    ran: tuple[Ran, ...]
    journal: bytes = field(repr=False)


def judge(lived: Lived, whole: Lived, name: str, told: str) -> Point:
    """A life as a point of the report; `whole` is the life without a crash."""
    findings = [*lived.watch.findings, *_doubled(lived), *_repeated(lived, whole), *_answers(lived)]
    wrong = lived.contradictions
    findings += [f"its journal contradicts itself: {one.subject}: {one.what} [{one.label}]" for one in wrong]
    if lived is not whole:
        findings += [*_other_world(lived, whole), *_other_end(lived, whole)]
    elif lived.outcome == NO_END:
        findings.append(f"it came to no end in {lived.legs} legs")
    return Point(
        name, told, lived.outcome, lived.detail, lived.output, tuple(dict.fromkeys(findings)), lived.legs, lived.struck,
        tuple(lived.watch.ran), lived.journal,
    )  # fmt: skip


def _doubled(lived: Lived) -> Iterator[str]:
    """Effects that happened more than once under one key."""
    by_key: defaultdict[str, list[Ran]] = defaultdict(list)
    for ran in lived.watch.ran:
        if not ran.looks_only and lived.watch.happened(ran):
            by_key[ran.key].append(ran)
    for key, runs in by_key.items():
        first = runs[0]
        # Idempotence is the other side's promise: only the list of effects can say that it was not kept.
        trusted = first.replay == "idempotent" and not all(ran.changed for ran in runs)
        if len(runs) > 1 and not trusted:
            attempts = ", ".join(str(ran.attempt) for ran in runs)
            yield f"{first.what} happened {len(runs)} times under key {key}: {first.arguments} (attempts {attempts})"


def _repeated(lived: Lived, whole: Lived) -> Iterator[str]:
    """Effects that happened under more keys than without a crash: the same deed, called anew."""
    expected, found = _deeds(whole), _deeds(lived)
    for (tool, arguments), keys in found.items():
        usual = len(expected.get((tool, arguments), ()))
        if len(keys) > max(usual, 1):
            yield f"{tool} happened under {len(keys)} keys, without a crash under {usual}: {arguments}"


def _deeds(lived: Lived) -> dict[tuple[str, str], set[str]]:
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for ran in lived.watch.ran:
        if not ran.looks_only and lived.watch.happened(ran):
            found[ran.what, ran.arguments].add(ran.key)
    return found


def _other_world(lived: Lived, whole: Lived) -> Iterator[str]:
    """What is more often in the world than without a crash; of a completed life also what is missing there."""
    now, usual = lived.watch.world, whole.watch.world
    for fact, count in (now - usual).items():
        yield f"in the world {_times(usual[fact] + count)}, without a crash {_times(usual[fact])}: {fact}"
    if lived.outcome == whole.outcome == COMPLETED:
        for fact, count in (usual - now).items():
            yield f"in the world {_times(usual[fact] - count)}, without a crash {_times(usual[fact])}: {fact}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _answers(lived: Lived) -> Iterator[str]:
    """Answers that stand twice in the journal, or nowhere although the run is completed."""
    told = Counter(event["stepId"] for event in lived.events if event["type"] == "step_output")
    for step, count in told.items():
        if count > 1:
            yield f"the answer of {step} stands {count} times in the journal"
    if lived.outcome != COMPLETED:
        return
    for call in lived.calls:
        if call.answer is None and call.settled_by is None and call.persistence != "withheld" and call.status:
            yield f"{call.tool} ({call.step_id}) has no answer, and the run is completed"


def _other_end(lived: Lived, whole: Lived) -> Iterator[str]:
    """An end that the crash brought about; to ask a person is always honest."""
    if lived.outcome in (whole.outcome, COMPLETED, NEEDS_A_PERSON):
        return
    # Without what differs from life to life, so that one finding is one line of the report.
    detail = f" ({_DIGESTS.sub('', lived.detail)})" if lived.detail else ""
    if lived.outcome == NO_END:
        yield f"it came to no end in {lived.legs} legs; without a crash: {whole.outcome}"
    elif lived.outcome == "paused: resume_divergence":
        yield f"its calls were others after the crash: resume_divergence{detail}"
    else:
        yield f"ended as {lived.outcome}{detail}; without a crash: {whole.outcome}"


def undeclared(agent: Agent, whole: Lived) -> tuple[str, ...]:
    """What the tools that were called leave unsaid."""
    silent = {call.tool for call in whole.calls if call.capability is not None and call.capability.source == "inferred"}
    strange = {call.tool for call in whole.calls} - set(agent.tools)
    return (
        *(f"{tool} says nothing of its effect" for tool in sorted(silent)),
        *(f"{tool} is not declared with the agent, so no plan knows its probe" for tool in sorted(strange)),
    )


def described(kill: Kill, count: int, batch: Batch) -> str:
    """A crash point in words: `killed after append 7 of 12 (answer pay-1, committed pay, …)`."""
    where = {None: "after", 0: "before"}.get(kill.keep, f"{kill.keep} of {len(batch.data)} bytes into")
    said = ", ".join(map(_word, batch.records))
    return f"killed {where} append {kill.append} of {count} ({said})"


def _word(record: Record) -> str:
    """What a record says, shortly: a receipt by its status and tool, an event by its type, all else by its kind."""
    event = record.payload.get("event")
    if not isinstance(event, dict):
        return f"{event} of the run" if record.kind == "operation" else record.kind
    return f"{event.get('status') or event['type']} {event.get('tool') or event.get('stepId') or ''}".strip()
