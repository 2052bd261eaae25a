"""One run's account on a page: what it is, how far it came, whose hands it was in, what is open."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clew.views.advice import reason_text
from clew.views.approvals import decision_lines
from clew.views.effects import call_text, standing
from clew.views.measures import check_lines, limits_text, usage_text
from clew.views.plain import When, count_text, duration_text, one_line, size_text, value_text

Facts = Mapping[str, Any]


def account_lines(snapshot: Facts, start: Facts, effects: Iterable[Facts], place: str, when: When) -> list[str]:
    """The page below a run's row.

    Args:
        snapshot: The run's snapshot.
        start: The payload of its start record.
        effects: Its effects.
        place: Where the journal lies.
        when: How times are shown.
    """
    agent = one_line(str(start.get("configName", "")))
    path = one_line(str(start.get("agentPath", "")))
    rows = [
        ("agent", f"{agent} ({path})" if path else agent),
        ("input", value_text(start.get("initialPrompt"), 500)),
        ("so far", _metrics(snapshot["metrics"])),
        *([("loop", _loop(snapshot["loop"]))] if snapshot.get("loop") else []),
        *(("leg" if not number else "", _leg(leg, when)) for number, leg in enumerate(snapshot["legs"])),
        *(("effects" if not number else "", text) for number, text in enumerate(_effects(effects))),
        *([("files", _checkpoints(snapshot))] if snapshot.get("checkpoints") else []),
        *(("told" if not number else "", text) for number, text in enumerate(_extensions(snapshot))),
        *(
            ("approval" if not number else "", text)
            for number, text in enumerate(decision_lines(snapshot.get("approvals") or (), when))
        ),
        *(("children" if not number else "", text) for number, text in enumerate(_children(snapshot))),
        *([("parent", _parent(snapshot["parent"]))] if "parent" in snapshot else []),
        ("journal", f"{place} ({_integrity(snapshot['integrity'])})"),
    ]
    limits = limits_text(snapshot.get("limits") or {})
    if limits:
        rows.insert(3, ("limits", limits))
    checks = check_lines(snapshot.get("checks") or (), snapshot.get("releaseReadiness") or {})
    rows += [("checks" if not number else "", line) for number, line in enumerate(checks)]
    output = _output(snapshot)
    if output is not None:
        rows.append(("output", output))
    return [f"  {name:<8} {text}" for name, text in rows]


def _metrics(metrics: Facts) -> str:
    parts = [count_text(metrics["toolCalls"], "call"), count_text(metrics["turns"], "turn")]
    parts += usage_text(metrics)
    if metrics.get("toolFailures"):
        parts.append(count_text(metrics["toolFailures"], "error answer"))
    kept = metrics.get("artifacts") or {}
    if kept.get("stored"):
        parts.append(f"{count_text(kept['stored'], 'artifact')} ({size_text(kept['totalBytes'])})")
    stepped = ", while the clock was set back" if metrics.get("clockStepped") else ""
    return f"{', '.join(parts)}; {duration_text(metrics['durationMs'])} from its first record to its last{stepped}"


def _loop(loop: Facts) -> str:
    """Where its loop stands, and why there."""
    why = one_line(str(loop.get("pauseReason") or loop.get("failureCode") or ""), 128)
    back = f", to go on {loop['resumePhase']}" if loop.get("resumePhase") else ""
    done = f"round {loop['iteration']}, {count_text(loop['repairCount'], 'repair')}"
    return f"{one_line(str(loop['phase']))}{f' ({why})' if why else ''}{back}: {done}"


def _leg(leg: Facts, when: When) -> str:
    closed = {"pause": "paused", "finish": "finished", "leg_ended": "ended"}
    told = str(leg.get("closedBy") or "")
    end = closed.get(told, told) or "not closed"
    who = f"pid {leg.get('pid')} on {one_line(str(leg.get('host')))} by {one_line(str(leg.get('user')))}"
    return f"{leg.get('number')} {leg.get('purpose')}, {when.second(str(leg['openedAt']))}, {who}: {end}"


def _effects(effects: Iterable[Facts]) -> list[str]:
    counted: dict[str, int] = {}
    for effect in effects:
        counted[_sort(effect)] = counted.get(_sort(effect), 0) + 1
    return [", ".join(f"{count} {word}" for word, count in counted.items())] if counted else ["none"]


def _checkpoints(snapshot: Facts) -> str:
    """That there are some, and how to look at them: nobody restores what nobody knows of."""
    return f"{count_text(len(snapshot['checkpoints']), 'checkpoint')}: clew diff {snapshot.get('runId')}"


def _extensions(snapshot: Facts) -> list[str]:
    """Each extension once: how often it was told, how often it denied, and what went wrong with it."""
    told: dict[str, list[Facts]] = {}
    for receipt in snapshot.get("extensions", ()):
        told.setdefault(f"{receipt['extensionId']} {receipt['extensionVersion']}", []).append(receipt)
    return [f"{name}: {_receipts(found)}" for name, found in told.items()]


def _receipts(found: Sequence[Facts]) -> str:
    said = [count_text(sum(receipt["count"] for receipt in found), "time")]
    sorts = {
        "denied": [receipt for receipt in found if receipt.get("denied")],
        "failed": [receipt for receipt in found if receipt["status"] == "failed"],
        "too late": [receipt for receipt in found if receipt["status"] == "timed_out"],
    }
    said += [f"{sum(each['count'] for each in some)} {word}" for word, some in sorts.items() if some]
    errors = [one_line(str(receipt["error"]), 300) for receipt in found if receipt.get("error")]
    return ", ".join(said) + (f"; last error: {errors[-1]}" if errors else "")


def _children(snapshot: Facts) -> list[str]:
    """Each child on a line: the step that waits for it, its run, and how it stands as the parent's journal knows it."""
    return [
        one_line(f"{child['stepId']}  {child['runId']} ({child['agent']}): {_standing(child)}", 300)
        for child in snapshot.get("children") or []
    ]


def _standing(child: Facts) -> str:
    told = child["outcome"] if child["status"] in ("joined", "terminal") else str(child["status"]).replace("_", " ")
    reason = child.get("reason")
    return f"{told}, {reason_text(reason)}" if reason and reason != told else str(told)


def _parent(parent: Facts) -> str:
    return one_line(f"{parent.get('runId')}, step {parent.get('stepId')}; it takes this run along", 300)


def _sort(effect: Facts) -> str:
    """What is counted together: the words, without who said so."""
    return standing(effect).partition(",")[0]


def _integrity(found: Facts) -> str:
    tail = found["tail"]
    ends = {
        "clean": "ends clean",
        "unterminated": "its last line lacks its end; the next writer adds it",
        "torn": f"{tail.get('bytes')} bytes at its end were never acknowledged; the next writer cuts them",
        "being_written": "is being written",
    }
    whose = "" if found["own"] else ", begun by another program"
    wrong = found.get("findingCount", 0)
    whose += f"; it contradicts itself in {count_text(wrong, 'place')}: clew verify --deep" if wrong else ""
    return f"{count_text(found['sequence'], 'record')}, {ends.get(tail['verdict'], tail['verdict'])}{whose}"


def _output(snapshot: Facts) -> str | None:
    """What the agent returned, once the run is completed."""
    if (snapshot.get("operation") or {}).get("state") != "completed":
        return None
    ends = [record["event"] for record in snapshot["trace"] if record.get("event", {}).get("type") == "agent_end"]
    return value_text(ends[-1].get("output"), 500) if ends else None


def verdict_line(found: Facts) -> str:
    """What `verify` found of a run that can be read."""
    tail = _integrity({"own": found["chained"], "sequence": found["records"], "tail": found["tail"]})
    chain = f"chain {found['chain'][:12]}" if found["chained"] else "no chain"
    missing = found["missingBlobs"]
    if missing:
        return f"DAMAGED  {found['runId']}  contents missing or damaged: {', '.join(missing)}; {tail}"
    word = "CONTRADICTS ITSELF" if found.get("findingCount") else "OK"
    pruned = found.get("prunedBlobs") or {}
    gone = f"; {count_text(len(pruned), 'content')} pruned, the last on {max(pruned.values())}" if pruned else ""
    return f"{word}  {found['runId']}  {tail}, {chain}{gone}"


def started_lines(effects: Sequence[Facts]) -> list[str]:
    """What an ended run had started: it stays listed, whatever became of it."""
    return [f"  {effect['stepId']}  {call_text(effect)}: {standing(effect)}" for effect in effects]
